// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// evictsMisplacedPods changes the cluster selector of a namespace while its pods run on milan.
// Without enforcement, a condition reports the misplaced pods, and they and their remote namespace
// stay. With enforcement, they are evicted within their PodDisruptionBudget, and the remote
// namespace is deleted.
func evictsMisplacedPods(t *testing.T) {
	const replicas = 3
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	before := runBudgeted(t, o.namespace, "web", replicas)

	const moon = `{"spec":{"clusterSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"` + regionLabel +
		`","operator":"In","values":["moon"]}]}]}}}`
	result := rome.Kubectl(t.Context(), "patch", "nsof", "offloading", "-n", o.namespace, "--type=merge", "-p", moon)
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	if !strings.Contains(result.Stderr, "Warn leaves 3 pod(s)") {
		t.Errorf("the patch has no warning: %s", result.Stderr)
	}
	inPlace(t, o.namespace, "Misplaced")
	eventually(t, soon, "the remote namespace to be reported as kept", func(ctx context.Context) (bool, string, error) {
		nsof, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(o.namespace).Get(ctx,
			v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil || len(nsof.Status.Clusters) == 0 {
			return false, "no clusters", err
		}
		ready := meta.FindStatusCondition(nsof.Status.Clusters[0].Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "PodsRemain", show(nsof.Status), nil
	})
	for i, pod := range podsReady(t, rome, o.namespace, "app=web", replicas) {
		if pod.UID != before[i].UID {
			t.Errorf("pod %s replaced %s, although nothing is enforced", pod.Name, before[i].Name)
		}
	}
	podsReady(t, milan, o.remote, "app=web", replicas)

	least := leastAvailable(t, rome.Kube, o.namespace, "web")
	kubectl(t, rome, "patch", "nsof", "offloading", "-n", o.namespace, "--subresource=offload", "--type=merge", "-p",
		`{"spec":{"enforcement":"Evict"}}`)
	// An eviction that the PodDisruptionBudget refuses is retried within a minute.
	eventually(t, 2*soon, "the pods to be in place", func(ctx context.Context) (bool, string, error) {
		nsof, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(o.namespace).Get(ctx,
			v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return meta.IsStatusConditionTrue(nsof.Status.Conditions, v1alpha1.ConditionPodsInPlace), show(nsof.Status), nil
	})
	for _, pod := range podsReady(t, rome, o.namespace, "app=web", replicas) {
		if pod.Spec.NodeName == virtualNode {
			t.Errorf("pod %s is on %s, which is not selected", pod.Name, virtualNode)
		}
	}
	if got := least(); got < replicas-1 {
		t.Errorf("only %d of %d replicas were available at a time, although the budget allows one disruption", got, replicas)
	}
	eventually(t, soon, "the remote namespace to be deleted", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, o.remote, metav1.GetOptions{})
		return gone(err)
	})
}

// inPlace waits until the condition PodsInPlace of the offloading of a namespace has a reason.
func inPlace(t *testing.T, namespace, reason string) {
	t.Helper()
	eventually(t, soon, "the pods of "+namespace+" to be "+reason, func(ctx context.Context) (bool, string, error) {
		nsof, err := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace).Get(ctx,
			v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		condition := meta.FindStatusCondition(nsof.Status.Conditions, v1alpha1.ConditionPodsInPlace)
		return condition != nil && condition.Reason == reason, show(nsof.Status.Conditions), nil
	})
}
