// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// runBudgeted runs a Deployment on the virtual node, and creates a PodDisruptionBudget that allows
// one of its pods to be disrupted.
func runBudgeted(t *testing.T, namespace, name string, replicas int32) []corev1.Pod {
	t.Helper()
	pods := runDeployment(t, namespace, name, replicas, preferringTheVirtualNode())
	for _, pod := range pods {
		if pod.Spec.NodeName != virtualNode {
			t.Fatalf("pod %s is on %s although it prefers %s", pod.Name, pod.Spec.NodeName, virtualNode)
		}
	}
	budgets := rome.Kube.PolicyV1().PodDisruptionBudgets(namespace)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
	must(budgets.Create(t.Context(), budget, metav1.CreateOptions{}))(t)
	eventually(t, soon, "the budget to allow one disruption", func(ctx context.Context) (bool, string, error) {
		budget, err := budgets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return budget.Status.DisruptionsAllowed == 1, show(budget.Status), nil
	})
	return pods
}

// drainsTheVirtualNode drains and uncordons the virtual node with kubectl. Evicted pods are
// replaced on rome within their PodDisruptionBudget. Pods that the drain does not select stay.
func drainsTheVirtualNode(t *testing.T) {
	const replicas = 3
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	drained := runBudgeted(t, o.namespace, "drained", replicas)
	stays := serving(t)
	run := containerRun(podReady(t, milan, stays.remote, "web"))
	t.Cleanup(func() { rome.Kubectl(context.WithoutCancel(t.Context()), "uncordon", virtualNode) })

	kubectl(t, rome, "cordon", virtualNode)
	runPod(t, stays.namespace, "waits", podSpec("serve"))
	podThat(t, rome, stays.namespace, "waits", "be unschedulable",
		func(p *corev1.Pod) bool { return whereIs(p) == "unschedulable" })

	kubectl(t, rome, "rollout", "status", "deployment/drained", "-n", o.namespace, "--timeout=110s")
	least := leastAvailable(t, rome.Kube, o.namespace, "drained")
	kubectl(t, rome, "drain", virtualNode, "--pod-selector=app=drained", "--timeout=110s")
	for _, pod := range podsReady(t, rome, o.namespace, "app=drained", replicas) {
		if pod.Spec.NodeName == virtualNode {
			t.Errorf("pod %s is on %s, which was drained", pod.Name, virtualNode)
		}
	}
	if got := least(); got < replicas-1 {
		t.Errorf("only %d of %d replicas were available at a time, although the budget allows one disruption", got, replicas)
	}
	for _, pod := range drained {
		podGone(t, milan, o.remote, pod.Name)
	}
	if now := containerRun(podReady(t, milan, stays.remote, "web")); now != run {
		t.Errorf("a pod that was not to be drained was disturbed: %s before, %s after", run, now)
	}

	kubectl(t, rome, "uncordon", virtualNode)
	podReady(t, rome, stays.namespace, "waits")
	podReady(t, milan, stays.remote, "waits")
}

// cordonsTheCluster cordons the peer, first on the consumer and then on the provider. Meanwhile
// running pods continue, a remote pod that is deleted is recreated, and new pods stay pending.
func cordonsTheCluster(t *testing.T) {
	o := serving(t)
	run := containerRun(podReady(t, milan, o.remote, "web"))
	runsThePage(t, rome, "peerings.md#cordon-a-cluster")
	for _, side := range []struct {
		cluster *harness.Cluster
		peer    string
		seen    string
		isSeen  func(*corev1.Node) bool
	}{
		{rome, "milan", "be cordoned", func(node *corev1.Node) bool { return node.Spec.Unschedulable }},
		{milan, "rome", "have room for no pod", func(node *corev1.Node) bool { return node.Status.Allocatable.Pods().IsZero() }},
	} {
		t.Cleanup(func() {
			side.cluster.Kubectl(context.WithoutCancel(t.Context()), "patch", "fc", side.peer, "--type=merge", "-p",
				`{"spec":{"cordoned":null}}`)
		})
		kubectl(t, side.cluster, "patch", "fc", side.peer, "--type=merge", "-p", `{"spec":{"cordoned":true}}`)
		eventually(t, soon, "node "+virtualNode+" to "+side.seen, func(ctx context.Context) (bool, string, error) {
			node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return side.isSeen(node), show(node.Status.Allocatable), nil
		})
		waits := "on-" + side.cluster.Name
		runPod(t, o.namespace, waits, podSpec("serve"))
		podThat(t, rome, o.namespace, waits, "be unschedulable",
			func(p *corev1.Pod) bool { return whereIs(p) == "unschedulable" })
		if side.cluster == milan {
			lost := podReady(t, milan, o.remote, "on-rome")
			kubectl(t, milan, "delete", "pod", "--wait=false", "-n", o.remote, lost.Name)
			podThat(t, milan, o.remote, lost.Name, "be recreated",
				func(p *corev1.Pod) bool { return p.UID != lost.UID && isReady(p) })
		}
		kubectl(t, side.cluster, "patch", "fc", side.peer, "--type=merge", "-p", `{"spec":{"cordoned":null}}`)
		podReady(t, rome, o.namespace, waits)
		podReady(t, milan, o.remote, waits)
	}
	if now := containerRun(podReady(t, milan, o.remote, "web")); now != run {
		t.Errorf("a pod that ran was disturbed: %s before, %s after", run, now)
	}
}

// leastAvailable watches the number of available replicas of a Deployment until the returned
// function is called, which returns the lowest one.
func leastAvailable(t *testing.T, client kubernetes.Interface, namespace, name string) func() int32 {
	t.Helper()
	events := must(client.AppsV1().Deployments(namespace).Watch(t.Context(),
		metav1.SingleObject(metav1.ObjectMeta{Name: name})))(t)
	least := make(chan int32, 1)
	go func() {
		var lowest *int32
		for event := range events.ResultChan() {
			if deployment, ok := event.Object.(*appsv1.Deployment); ok &&
				(lowest == nil || deployment.Status.AvailableReplicas < *lowest) {
				lowest = &deployment.Status.AvailableReplicas
			}
		}
		least <- ptr.Deref(lowest, -1)
	}()
	return func() int32 {
		events.Stop()
		return <-least
	}
}
