// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// briefly is how many seconds pods of these tests stay on a node that is lost.
const briefly = 5

// notForLong tolerates the loss of a node briefly.
func notForLong() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](briefly)})
	}
	return all
}

// theVirtualNodeIsLostForLong cuts rome off from milan until rome gives up the
// pod there, and has another one at home. Nobody on rome can know that the first
// one has ended, so it stays until milan is back; then it goes, and the second one
// stays.
func theVirtualNodeIsLostForLong(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	spec := preferringTheVirtualNode()
	spec.Tolerations = notForLong()
	lost := runDeployment(t, o.namespace, "web", 1, spec)[0]
	if lost.Spec.NodeName != virtualNode {
		t.Fatalf("pod %s is on %s although it prefers %s", lost.Name, lost.Spec.NodeName, virtualNode)
	}
	run := containerRun(podReady(t, milan, o.twin, lost.Name))
	watched := watchPods(t, o)

	cut(t)
	since := time.Now()
	podThat(t, rome, o.namespace, lost.Name, "be evicted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	t.Logf("the pod was evicted %s after the cut", time.Since(since).Round(time.Second))
	var home corev1.Pod
	eventually(t, soon, "another pod to be Ready on a node of rome", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, "", err
		}
		saw := ""
		for _, pod := range pods.Items {
			if pod.UID != lost.UID && pod.Spec.NodeName != virtualNode && isReady(&pod) {
				home = pod
				return true, "", nil
			}
			saw += podState(&pod) + "; "
		}
		return false, saw, nil
	})
	if here := must(rome.Kube.CoreV1().Pods(o.namespace).Get(t.Context(), lost.Name, metav1.GetOptions{}))(t); here.UID != lost.UID {
		t.Errorf("pod %s is another one now", lost.Name)
	}
	if now := containerRun(podReady(t, milan, o.twin, lost.Name)); now != run {
		t.Errorf("the pod on milan was disturbed: %s before, %s after", run, now)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	podGone(t, rome, o.namespace, lost.Name)
	podGone(t, milan, o.twin, lost.Name)
	noShadowPods(t, o)
	if stays := podsReady(t, rome, o.namespace, "app=web", 1)[0]; stays.UID != home.UID {
		t.Errorf("pod %s took the place of %s, which ran at home", stays.Name, home.Name)
	}
	nodeIsReady(t, rome, virtualNode)
	// It may have told how it ended.
	watched.ranOnce(t, 0, lost.UID)
}

// noShadowPods waits until a twin has no shadow pods.
func noShadowPods(t *testing.T, o offload) {
	t.Helper()
	eventually(t, soon, "no shadow pods in "+o.twin, func(ctx context.Context) (bool, string, error) {
		shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.twin).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		return len(shadows.Items) == 0, show(shadows.Items), nil
	})
}

func nodeIsReady(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	eventually(t, soon, "node "+name+" to be Ready", func(ctx context.Context) (bool, string, error) {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return nodeReady(node), show(node.Status.Conditions), nil
	})
}
