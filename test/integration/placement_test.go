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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	decide "liqo.io/federation/apiserver/placement"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
	"liqo.io/federation/test/placements"
)

// withPlacement returns the environment with the admission policy that places pods.
func withPlacement(t *testing.T) *framework.Environment {
	t.Helper()
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "placement.yaml"), "apply", "-f", "-")
	return env
}

// placement creates a namespace with a NamespaceOffloading of this spec, and waits until the
// admission policy changes pods in it.
func placement(t *testing.T, env *framework.Environment, spec v1alpha1.NamespaceOffloadingSpec) string {
	t.Helper()
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
	probe := placements.Pod(nil)
	probe.Name = "probe"
	until(t, "the placement policy works", func(ctx context.Context) (bool, error) {
		placed, err := create(ctx, env, namespace, probe)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		// While the policy is not in force, pods are created unchanged.
		return err == nil && (placed.Spec.Affinity != nil || toleratesVirtualNodes(placed)), err
	})
	return namespace
}

func toleratesVirtualNodes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations,
		func(toleration corev1.Toleration) bool { return toleration.Key == v1alpha1.TaintVirtualNode })
}

func labelledNamespace(t *testing.T, env *framework.Environment) string {
	t.Helper()
	namespace := env.MakeNamespace(t)
	env.ServiceAccount(t, namespace, "default")
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, v1alpha1.LabelSchedulingEnabled)
	must(t)(env.Kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, label,
		metav1.PatchOptions{}))
	return namespace
}

// pod returns a pod with these terms as its required node affinity; nil means none.
func pod(terms []corev1.NodeSelectorTerm) *corev1.Pod { return placements.Pod(terms) }

// create creates a pod as a dry run.
func create(ctx context.Context, env *framework.Environment, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	return env.Kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// The policy, which is written in CEL, must have the same results as the Go function
// placement.Decide.
func TestPlacementPolicyFollowsStrategySelectorAndAffinity(t *testing.T) {
	env := withPlacement(t)
	for _, strategy := range placements.Strategies {
		for selectorName, selector := range placements.Selectors {
			t.Run(fmt.Sprintf("%s, %s", strategy, selectorName), func(t *testing.T) {
				spec := v1alpha1.NamespaceOffloadingSpec{
					PodOffloadingStrategy: strategy, ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: selector},
				}
				namespace := placement(t, env, spec)
				rule, err := decide.NewPlacement(&spec, nil, nodeOf)
				if err != nil {
					t.Fatal(err)
				}
				for affinityName, own := range placements.Affinities {
					created := placements.Pod(own)
					placed, err := create(t.Context(), env, namespace, created)
					if err != nil {
						t.Fatalf("%s: %v", affinityName, err)
					}
					decision := decide.Decide(decide.Input{Offloading: &v1alpha1.NamespaceOffloading{Spec: spec}, Pod: created})
					if diff := cmp.Diff(affinityOf(created, decision), placed.Spec.Affinity, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s: the policy and the function differ (-function +policy):\n%s", affinityName, diff)
					}
					if decision.Tolerate != toleratesVirtualNodes(placed) {
						t.Errorf("%s: the function adds the toleration: %v, the policy differs", affinityName, decision.Tolerate)
					}
					for _, node := range placements.Nodes {
						want := placements.Allows(t, strategy, selector, own, node)
						if got := placements.Fits(t, placed, node); got != want {
							t.Errorf("%s: fits %s: %v, want %v; affinity %+v", affinityName, node.Name, got, want, placed.Spec.Affinity)
						}
						// A running pod must be misplaced on exactly the nodes on which a new pod
						// is not allowed.
						running := placements.Pod(nil)
						running.Spec.NodeName = node.Name
						if why := rule.Misplaced(running); own == nil && (why == "") != want {
							t.Errorf("on %s it is misplaced because %q, and may run there: %v", node.Name, why, want)
						}
					}
				}
			})
		}
	}
}

func nodeOf(name string) *corev1.Node {
	return placements.Nodes[slices.IndexFunc(placements.Nodes, func(node *corev1.Node) bool { return node.Name == name })]
}

// affinityOf returns the affinity that a decision causes for a pod.
func affinityOf(pod *corev1.Pod, decision decide.Decision) *corev1.Affinity {
	if decision.Terms == nil {
		return pod.Spec.Affinity
	}
	return placements.Pod(decision.Terms).Spec.Affinity
}

func TestPlacementKeepsOtherRequirementsOfAPod(t *testing.T) {
	env := withPlacement(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	wanted := placements.Pod([]corev1.NodeSelectorTerm{placements.Expressions(placements.In("disk", "fast"))})
	wanted.Spec.NodeSelector = map[string]string{"disk": "fast"}
	wanted.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: 1, Preference: placements.Expressions(placements.Exists("gpu"))},
	}
	wanted.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}
	virtual := corev1.Toleration{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpEqual, Value: "true",
		Effect: corev1.TaintEffectNoExecute}
	wanted.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}, virtual}

	placed, err := create(t.Context(), env, namespace, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if placed.Spec.Affinity.PodAntiAffinity == nil ||
		len(placed.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
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

func TestPlacementLeavesPodsOfDaemonSetsAndNodesAlone(t *testing.T) {
	env := withPlacement(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})

	ofDaemonSet := placements.Pod(nil)
	ofDaemonSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent",
		UID: "1", Controller: ptr.To(true)}}
	ofReplicaSet := placements.Pod(nil)
	ofReplicaSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web",
		UID: "1", Controller: ptr.To(true)}}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{"DaemonSet": {ofDaemonSet, false}, "ReplicaSet": {ofReplicaSet, true}} {
		placed, err := create(t.Context(), env, namespace, test.pod)
		if err != nil {
			t.Fatal(err)
		}
		if touched := placed.Spec.Affinity != nil; touched != test.want {
			t.Errorf("pod of a %s: changed is %v, want %v", name, touched, test.want)
		}
	}
}

func TestPodsOfATerminatingOffloadingStayLocal(t *testing.T) {
	env := withPlacement(t)
	namespace := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	client, err := versioned.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	// No controller of this test removes the finalizer.
	if err := client.FederationV1alpha1().NamespaceOffloadings(namespace).Delete(t.Context(),
		v1alpha1.NamespaceOffloadingName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "pods stay local", func(ctx context.Context) (bool, error) {
		placed, err := create(ctx, env, namespace, placements.Pod(nil))
		if err != nil {
			return false, err
		}
		return placements.Fits(t, placed, nodeOf("worker")) && !placements.Fits(t, placed, nodeOf("liqo-milan")), nil
	})
}

func TestPodOfALabelledNamespaceWaitsForItsOffloading(t *testing.T) {
	env := withPlacement(t)
	placement(t, env, v1alpha1.NamespaceOffloadingSpec{})
	namespace := labelledNamespace(t, env)
	until(t, "the pod is refused", func(ctx context.Context) (bool, error) {
		_, err := create(ctx, env, namespace, placements.Pod(nil))
		if err == nil {
			// The admission plugin has not observed the label of the namespace yet.
			return false, nil
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no params found") {
			return false, err
		}
		return true, nil
	})
}

func TestOutageOfTheServerBlocksLabelledNamespacesOnly(t *testing.T) {
	env := withPlacement(t)
	offloaded := placement(t, env, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote})
	pending := labelledNamespace(t, env)
	ordinary := env.MakeNamespace(t)
	env.ServiceAccount(t, ordinary, "default")

	env.Server.Stop(t, syscall.SIGKILL)
	defer env.Server.Start(t)
	placed, err := create(t.Context(), env, ordinary, placements.Pod(nil))
	if err != nil {
		t.Fatalf("a pod of an ordinary namespace is refused: %v", err)
	}
	if placed.Spec.Affinity != nil || toleratesVirtualNodes(placed) {
		t.Errorf("a pod of an ordinary namespace is placed: %+v", placed.Spec)
	}
	placed, err = create(t.Context(), env, offloaded, placements.Pod(nil))
	if err != nil {
		t.Fatalf("a pod of an offloaded namespace is refused, although its placement is known: %v", err)
	}
	if placements.Fits(t, placed, nodeOf("worker")) {
		t.Errorf("a pod is not subject to the strategy: %+v", placed.Spec)
	}
	if placed, err = create(t.Context(), env, pending, placements.Pod(nil)); err == nil {
		t.Errorf("a pod is admitted before its placement is known: %+v", placed.Spec)
	}
}
