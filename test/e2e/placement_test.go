// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

func namesRemoteNamespacesByStrategy(t *testing.T) {
	for _, test := range []struct {
		strategy v1alpha1.NamespaceMappingStrategy
		name     string
		wanted   func(namespace, remoteNamespace string) bool
	}{
		{v1alpha1.EnforceSameName, "", func(namespace, remoteNamespace string) bool { return remoteNamespace == namespace }},
		{v1alpha1.SelectedName, "bakery", func(_, remoteNamespace string) bool { return remoteNamespace == "bakery" }},
		{v1alpha1.DefaultName, "", func(namespace, remoteNamespace string) bool {
			return strings.HasPrefix(remoteNamespace, namespace+"-rome-")
		}},
	} {
		t.Run(string(test.strategy), func(t *testing.T) {
			o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: test.strategy,
				RemoteNamespaceName: test.name, PodOffloadingStrategy: v1alpha1.Remote})
			if !test.wanted(o.namespace, o.remote) {
				t.Errorf("the remote namespace of %s is %s", o.namespace, o.remote)
			}
			remoteNamespace := must(milan.Kube.CoreV1().Namespaces().Get(t.Context(), o.remote, metav1.GetOptions{}))(t)
			want := map[string]string{
				v1alpha1.LabelOrigin:                 must(rome.ID(t.Context()))(t),
				v1alpha1.LabelDestination:            must(milan.ID(t.Context()))(t),
				"pod-security.kubernetes.io/enforce": "baseline",
			}
			got := map[string]string{}
			for key := range want {
				got[key] = remoteNamespace.Labels[key]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("labels of the remote namespace (-want +got):\n%s", diff)
			}
			runReadyPod(t, o.namespace, "web", podSpec("serve"))
			podReady(t, milan, o.remote, "web")
		})
	}
}

func placesPodsByStrategy(t *testing.T) {
	onVirtual := func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	}
	onOwn := func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.TypeVirtualNode},
				}}}},
			}}}
	}
	anywhere := func(*corev1.PodSpec) {}
	inRegion := func(region string) corev1.NodeSelector {
		return corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: regionLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{region},
			}}}}}
	}
	const local, remote, nowhere = "on a node of rome", "on the virtual node", "unschedulable"
	for _, test := range []struct {
		name     string
		strategy v1alpha1.PodOffloadingStrategy
		selector corev1.NodeSelector
		pod      func(*corev1.PodSpec)
		want     string
	}{
		{"Remote", v1alpha1.Remote, corev1.NodeSelector{}, anywhere, remote},
		{"Remote with a pod that requires a local node", v1alpha1.Remote, corev1.NodeSelector{}, onOwn, nowhere},
		{"Remote on a selected cluster", v1alpha1.Remote, inRegion("north"), anywhere, remote},
		{"Local", v1alpha1.Local, corev1.NodeSelector{}, anywhere, local},
		{"Local with a pod that requires a virtual node", v1alpha1.Local, corev1.NodeSelector{}, onVirtual, nowhere},
		{"LocalAndRemote with a pod that requires a virtual node", v1alpha1.LocalAndRemote, corev1.NodeSelector{}, onVirtual, remote},
		{"LocalAndRemote with a pod that requires a local node", v1alpha1.LocalAndRemote, corev1.NodeSelector{}, onOwn, local},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: test.strategy,
				ClusterSelector: test.selector})
			spec := podSpec("serve")
			test.pod(&spec)
			pod := runPod(t, o.namespace, "web", spec)
			eventually(t, soon, "the pod to be "+test.want, func(ctx context.Context) (bool, string, error) {
				var err error
				pod, err = rome.Kube.CoreV1().Pods(o.namespace).Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				return whereIs(pod) == test.want, podState(pod), nil
			})
			if test.want != nowhere {
				podReady(t, rome, o.namespace, "web")
			}
		})
	}

	t.Run("a selector that no cluster matches", func(t *testing.T) {
		namespace := namespaceOn(t, rome)
		client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace)
		spec := v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote, ClusterSelector: inRegion("moon")}
		must(client.CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{Spec: spec},
			metav1.CreateOptions{}))(t)
		eventually(t, soon, "the phase NoClusterSelected", func(ctx context.Context) (bool, string, error) {
			nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return nsof.Status.Phase == v1alpha1.OffloadingNoClusterSelected, show(nsof.Status), nil
		})
		runPod(t, namespace, "web", podSpec("serve"))
		podThat(t, rome, namespace, "web", "be unschedulable", func(p *corev1.Pod) bool { return whereIs(p) == nowhere })
	})
}

func whereIs(pod *corev1.Pod) string {
	switch {
	case pod.Spec.NodeName == virtualNode:
		return "on the virtual node"
	case pod.Spec.NodeName != "":
		return "on a node of rome"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return "unschedulable"
		}
	}
	return "not scheduled yet"
}

// doesNotChangeUnmanagedObjects creates a namespace on milan that has the name of a remote
// namespace. The product must not change it, and the offloading must report the conflict.
func doesNotChangeUnmanagedObjects(t *testing.T) {
	namespace := namespaceOn(t, rome)
	before := must(milan.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		collect(t)
		if err := milan.Kube.CoreV1().Namespaces().Delete(context.Background(), namespace,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace)
	spec := v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName}
	must(client.CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{Spec: spec},
		metav1.CreateOptions{}))(t)
	eventually(t, soon, "the conflict to be reported", func(ctx context.Context) (bool, string, error) {
		nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return nsof.Status.Phase == v1alpha1.OffloadingAllFailed, show(nsof.Status), nil
	})
	after := must(milan.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" || after.DeletionTimestamp != nil {
		t.Errorf("the namespace on milan was changed, labels (-before +after):\n%s", diff)
	}
	if bindings := must(milan.Kube.RbacV1().RoleBindings(namespace).List(t.Context(),
		metav1.ListOptions{}))(t); len(bindings.Items) > 0 {
		t.Errorf("rome has the RoleBindings %v in a namespace that is not its remote namespace", bindings.Items)
	}
}

// runsADeploymentOnTheProvider creates a Deployment of a web server on rome, whose pods must run on
// nodes of milan.
func runsADeploymentOnTheProvider(t *testing.T) {
	w := deploysOnProvider(t, rome)
	kubectl(t, rome, "scale", "deployment/web", "-n", w.namespace, "--replicas=1")
	podsReady(t, rome, w.namespace, "app=web", 1)
	podsReady(t, milan, w.remote, "app=web", 1)
}

func isApplied(t *testing.T, c *harness.Cluster, manifest string) {
	t.Helper()
	if err := c.Apply(t.Context(), manifest).Err; err != nil {
		t.Fatal(err)
	}
}
