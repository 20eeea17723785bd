// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/test/harness"
)

// namespaceDeletionResumesAfterOutage stops rome's federation API server. Deleted namespaces must
// stay terminating until it runs again. Offloaded pods must not be disturbed.
func namespaceDeletionResumesAfterOutage(t *testing.T) {
	o := serving(t)
	run := containerRun(podReady(t, milan, o.remote, "web"))
	bystander := namespaceOn(t, rome)
	scaleAPIServer(t, rome, "0")
	// The server is started again even if the test failed, because the next step needs it.
	t.Cleanup(func() {
		rome.Kubectl(context.WithoutCancel(t.Context()), "scale", "statefulset", "federation-apiserver", "--namespace",
			harness.Namespace, "--replicas=1")
	})
	podGone(t, rome, harness.Namespace, apiServer)
	if err := rome.Kube.CoreV1().Namespaces().Delete(t.Context(), bystander, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the deletion of a namespace to wait for the API server",
		func(ctx context.Context) (bool, string, error) {
			namespace, err := rome.Kube.CoreV1().Namespaces().Get(ctx, bystander, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			waits := slices.ContainsFunc(namespace.Status.Conditions, func(c corev1.NamespaceCondition) bool {
				return c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue
			})
			return waits, show(namespace.Status), nil
		})
	undisturbed := func(when string) {
		t.Helper()
		if now := containerRun(podReady(t, milan, o.remote, "web")); now != run {
			t.Errorf("%s the pod was disturbed: %s before, %s after", when, run, now)
		}
		podReady(t, rome, o.namespace, "web")
	}
	undisturbed("during the outage")
	scaleAPIServer(t, rome, "1")
	podReady(t, rome, harness.Namespace, apiServer)
	eventually(t, soon, "the namespace to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := rome.Kube.CoreV1().Namespaces().Get(ctx, bystander, metav1.GetOptions{})
		return gone(err)
	})
	undisturbed("after the outage")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
}

func scaleAPIServer(t *testing.T, c *harness.Cluster, replicas string) {
	t.Helper()
	patch := []byte(`{"spec":{"replicas":` + replicas + `}}`)
	if _, err := c.Kube.AppsV1().StatefulSets(harness.Namespace).Patch(t.Context(), "federation-apiserver",
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
