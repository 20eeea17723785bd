// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// placement makes a labelled namespace in which pods are placed as the spec
// says, and waits until the policy works.
func placement(t *testing.T, env *framework.Environment, spec v1alpha1.NamespaceOffloadingSpec) string {
	t.Helper()
	env.Kubectl(t, env.Chart(t, "placement.yaml"), "apply", "-f", "-")
	namespace := labelledNamespace(t, env)
	client, err := versioned.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.FederationV1alpha1().NamespaceOffloadings(namespace).Create(t.Context(), &v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe := pod(nil)
	probe.Name = "probe"
	until(t, "the placement policy works", func(ctx context.Context) (bool, error) {
		placed, err := create(ctx, env, namespace, probe)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		// Until the policy is loaded a pod is let in as it is.
		return err == nil && (placed.Spec.Affinity != nil || toleratesVirtualNodes(placed)), err
	})
	return namespace
}

func toleratesVirtualNodes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(toleration corev1.Toleration) bool { return toleration.Key == v1alpha1.TaintVirtualNode })
}

func labelledNamespace(t *testing.T, env *framework.Environment) string {
	t.Helper()
	namespace := env.MakeNamespace(t)
	env.ServiceAccount(t, namespace, "default")
	env.Kubectl(t, "", "label", "namespace", namespace, v1alpha1.LabelSchedulingEnabled+"=true")
	return namespace
}

// create asks what would become of a pod.
func create(ctx context.Context, env *framework.Environment, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	return env.Kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func pod(terms []corev1.NodeSelectorTerm) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
	if terms != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	return pod
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func exists(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
}

func expressions(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func named(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in(metav1.ObjectNameField, node)}}
}

func node(name string, virtual bool, labels map[string]string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if virtual {
		node.Labels[v1alpha1.LabelType] = v1alpha1.TypeVirtualNode
		node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute}}
	}
	return node
}

// fits says what the scheduler would say.
func fits(t *testing.T, pod *corev1.Pod, node *corev1.Node) bool {
	t.Helper()
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(t.Context()), node.Spec.Taints, pod.Spec.Tolerations,
		func(*corev1.Taint) bool { return true }, true)
	return matches && !untolerated
}

// selects says whether a node is one of those that terms ask for.
func selects(t *testing.T, terms []corev1.NodeSelectorTerm, node *corev1.Node) bool {
	t.Helper()
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err != nil {
		t.Fatal(err)
	}
	return selector.Match(node)
}

func TestPlacementHoldsStrategySelectorAndThePodsOwnAffinity(t *testing.T) {
	env := framework.Get(t)
	nodes := []*corev1.Node{
		node("here", false, map[string]string{}),
		node("here-it", false, map[string]string{"region": "it", "disk": "fast"}),
		node("liqo-milan", true, map[string]string{"region": "it"}),
		node("liqo-turin", true, map[string]string{"region": "it", "disk": "fast", "gpu": ""}),
		node("liqo-paris", true, map[string]string{"region": "fr", "disk": "fast"}),
	}
	selectors := map[string][]corev1.NodeSelectorTerm{
		"all clusters":  nil,
		"one term":      {expressions(in("region", "it"))},
		"two terms":     {expressions(in("region", "fr")), expressions(in("region", "it"), exists("gpu"))},
		"a node's name": {named("liqo-milan")},
	}
	affinities := map[string][]corev1.NodeSelectorTerm{
		"anywhere":              nil,
		"one term":              {expressions(in("disk", "fast"))},
		"two terms":             {expressions(in("disk", "fast")), expressions(in("region", "it"))},
		"a node's name":         {named("liqo-milan")},
		"a name or a label":     {named("here"), expressions(exists("gpu"))},
		"a term for no node":    {{}},
		"that term and another": {{}, expressions(in("disk", "fast"))},
		"not virtual":           {expressions(corev1.NodeSelectorRequirement{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpDoesNotExist})},
	}
	for _, strategy := range []v1alpha1.PodOffloadingStrategy{v1alpha1.Local, v1alpha1.Remote, v1alpha1.LocalAndRemote} {
		for selectorName, selector := range selectors {
			t.Run(fmt.Sprintf("%s, %s", strategy, selectorName), func(t *testing.T) {
				spec := v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy, ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: selector}}
				namespace := placement(t, env, spec)
				rule, err := rules.NewPlacement(&spec, nil, func(name string) *corev1.Node {
					return nodes[slices.IndexFunc(nodes, func(node *corev1.Node) bool { return node.Name == name })]
				})
				if err != nil {
					t.Fatal(err)
				}
				for affinityName, own := range affinities {
					placed, err := create(t.Context(), env, namespace, pod(own))
					if err != nil {
						t.Fatalf("%s: %v", affinityName, err)
					}
					for _, node := range nodes {
						virtual := node.Labels[v1alpha1.LabelType] == v1alpha1.TypeVirtualNode
						want := own == nil || selects(t, own, node)
						switch strategy {
						case v1alpha1.Local:
							want = want && !virtual
						case v1alpha1.Remote:
							want = want && virtual
						}
						if virtual && selector != nil {
							want = want && selects(t, selector, node)
						}
						if got := fits(t, placed, node); got != want {
							t.Errorf("%s: fits %s is %v, want %v; affinity %+v", affinityName, node.Name, got, want, placed.Spec.Affinity)
						}
						// What runs where a new pod may not go is misplaced, and nothing else is.
						running := pod(nil)
						running.Spec.NodeName = node.Name
						if why := rule.Misplaced(running); own == nil && (why == "") != want {
							t.Errorf("on %s it is misplaced because %q, and may go there: %v", node.Name, why, want)
						}
					}
				}
			})
		}
	}
}

func TestPlacementKeepsWhatElseAPodAsksFor(t *testing.T) {
	env := framework.Get(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	wanted := pod([]corev1.NodeSelectorTerm{expressions(in("disk", "fast"))})
	wanted.Spec.NodeSelector = map[string]string{"disk": "fast"}
	wanted.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: 1, Preference: expressions(exists("gpu"))},
	}
	wanted.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}}
	virtual := corev1.Toleration{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoExecute}
	wanted.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}, virtual}

	placed, err := create(t.Context(), env, namespace, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if placed.Spec.Affinity.PodAntiAffinity == nil || len(placed.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("affinity was lost: %+v", placed.Spec.Affinity)
	}
	if placed.Spec.NodeSelector["disk"] != "fast" || placed.Spec.Tolerations[0].Key != "dedicated" {
		t.Errorf("node selector or tolerations were lost: %+v", placed.Spec)
	}
	count := 0
	for _, toleration := range placed.Spec.Tolerations {
		if toleration.Key == v1alpha1.TaintVirtualNode {
			count++
		}
	}
	if count != 1 {
		t.Errorf("virtual nodes are tolerated %d times", count)
	}
}

func TestPodsWithVolumesOfThisClusterStayWithThem(t *testing.T) {
	env := framework.Get(t)
	here, milan := node("here", false, map[string]string{}), node("liqo-milan", true, map[string]string{})
	volumes := map[string]corev1.VolumeSource{
		"a claim":           {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		"a claim of itself": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}},
		"a scratch volume":  {EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	for _, test := range []struct {
		strategy    v1alpha1.PodOffloadingStrategy
		volume      string
		home, there bool
	}{
		{v1alpha1.LocalAndRemote, "a claim", true, false},
		{v1alpha1.LocalAndRemote, "a claim of itself", true, false},
		{v1alpha1.LocalAndRemote, "a scratch volume", true, true},
		{v1alpha1.Local, "a claim", true, false},
		// The namespace leaves no choice: the claim is in its twin.
		{v1alpha1.Remote, "a claim", false, true},
	} {
		t.Run(fmt.Sprintf("%s, %s", test.strategy, test.volume), func(t *testing.T) {
			namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: test.strategy})
			wanted := pod(nil)
			wanted.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: volumes[test.volume]}}
			placed, err := create(t.Context(), env, namespace, wanted)
			if err != nil {
				t.Fatal(err)
			}
			if home, there := fits(t, placed, here), fits(t, placed, milan); home != test.home || there != test.there {
				t.Errorf("at home: %v, want %v; next door: %v, want %v; affinity %+v", home, test.home, there, test.there, placed.Spec.Affinity)
			}
		})
	}
}

func TestPlacementLeavesPodsOfDaemonSetsAndNodesAlone(t *testing.T) {
	env := framework.Get(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})

	ofDaemonSet := pod(nil)
	ofDaemonSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "1", Controller: ptr.To(true)}}
	ofReplicaSet := pod(nil)
	ofReplicaSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: ptr.To(true)}}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{"DaemonSet": {ofDaemonSet, false}, "ReplicaSet": {ofReplicaSet, true}} {
		placed, err := create(t.Context(), env, namespace, test.pod)
		if err != nil {
			t.Fatal(err)
		}
		if touched := placed.Spec.Affinity != nil; touched != test.want {
			t.Errorf("pod of a %s: touched is %v, want %v", name, touched, test.want)
		}
	}
}

func TestPodsOfANamespaceThatIsLeftStayHere(t *testing.T) {
	env := framework.Get(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	client, err := versioned.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	// The finalizer holds it, and no controller is there to take that off.
	if err := client.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(), v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "pods stay here", func(ctx context.Context) (bool, error) {
		placed, err := create(ctx, env, namespace, pod(nil))
		if err != nil {
			return false, err
		}
		return fits(t, placed, node("here", false, map[string]string{})) && !fits(t, placed, node("liqo-milan", true, map[string]string{})), nil
	})
}

func TestPodOfALabelledNamespaceWaitsForItsOffloading(t *testing.T) {
	env := framework.Get(t)
	placement(t, env, v1alpha1.NamespaceOffloadingSpec{})
	namespace := labelledNamespace(t, env)
	until(t, "the pod is refused", func(ctx context.Context) (bool, error) {
		_, err := create(ctx, env, namespace, pod(nil))
		if err == nil {
			// The API server has yet to see the label.
			return false, nil
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no params found") {
			return false, err
		}
		return true, nil
	})
}

func TestPlacementWithoutOurServerConcernsLabelledNamespacesOnly(t *testing.T) {
	env := framework.Get(t)
	offloaded := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	pending := labelledNamespace(t, env)
	ordinary := env.MakeNamespace(t)
	env.ServiceAccount(t, ordinary, "default")

	env.Server.Stop(t, syscall.SIGKILL)
	defer env.Server.Start(t)
	placed, err := create(t.Context(), env, ordinary, pod(nil))
	if err != nil {
		t.Fatalf("a pod of an ordinary namespace is refused: %v", err)
	}
	if placed.Spec.Affinity != nil || toleratesVirtualNodes(placed) {
		t.Errorf("a pod of an ordinary namespace is placed: %+v", placed.Spec)
	}
	placed, err = create(t.Context(), env, offloaded, pod(nil))
	if err != nil {
		t.Fatalf("a pod of an offloaded namespace is refused, though how to place it is known: %v", err)
	}
	if fits(t, placed, node("here", false, map[string]string{})) {
		t.Errorf("a pod slips past the strategy: %+v", placed.Spec)
	}
	if placed, err = create(t.Context(), env, pending, pod(nil)); err == nil {
		t.Errorf("a pod is let in before it is known where it may run: %+v", placed.Spec)
	}
}
