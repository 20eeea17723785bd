// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// offersNodeByNode changes milan's offer to one virtual node per node of milan, and back. With each
// change, pods with a controller must be evicted within their PodDisruptionBudgets, and pods
// without one are deleted with their virtual node.
func offersNodeByNode(t *testing.T) {
	defer offersPercent(t, 90)
	defer opensEveryNode(t)()
	nodes := realNodes(t, milan)
	offersPercent(t, 90)
	o := offloaded(t, remoteOnly)
	runBudgeted(t, o.namespace, "web", 2)
	kubectl(t, rome, "rollout", "status", "deployment/web", "-n", o.namespace, "--timeout=110s")
	least := leastAvailable(t, rome.Kube, o.namespace, "web")

	defer func() {
		collect(t)
		offersIn(t, "null")
		virtualNodesAre(t, virtualNode)
	}()
	runsThePage(t, milan, "quotas.md#node-by-node")
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("%s-%d", virtualNode, i+1))
	}
	virtual := virtualNodesAre(t, names...)
	for _, node := range nodes {
		at := slices.IndexFunc(virtual, func(v corev1.Node) bool { return v.Labels[corev1.LabelTopologyZone] == node.Name })
		if at < 0 {
			t.Fatalf("no virtual node of %s: %s", node.Name, show(virtual))
		}
		hasPercent(t, virtual[at].Name, 90, node)
	}
	isOn(t, o, "web", 2, names)

	// The pod requests more CPU than any node has, but less than all nodes have together.
	var most, sum resource.Quantity
	for i, node := range nodes {
		if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.Cmp(most) > 0 {
			most = cpu
		}
		sum.Add(virtual[i].Status.Allocatable[corev1.ResourceCPU])
	}
	most.Add(resource.MustParse("1m"))
	large := podSpec("serve")
	large.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: most}
	runPod(t, o.namespace, "large", large)
	const onto = "sent-to-"
	for _, name := range names {
		spec := podSpec("serve")
		spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
		runPod(t, o.namespace, onto+name, spec)
	}
	for _, v := range virtual {
		if local := podReady(t, rome, o.namespace, onto+v.Name); local.Spec.NodeName != v.Name {
			t.Errorf("pod %s is on %s", local.Name, local.Spec.NodeName)
		}
		remote := podReady(t, milan, o.remote, onto+v.Name)
		if want := v.Labels[corev1.LabelTopologyZone]; remote.Spec.NodeName != want {
			t.Errorf("on milan, pod %s is on %s, want %s", remote.Name, remote.Spec.NodeName, want)
		}
	}
	podThat(t, rome, o.namespace, "large", "fit no virtual node",
		func(p *corev1.Pod) bool { return whereIs(p) == "unschedulable" })

	offersIn(t, "null")
	virtualNodesAre(t, virtualNode)
	offersPercent(t, 90)
	isOn(t, o, "web", 2, []string{virtualNode})
	if got := least(); got < 1 {
		t.Error("no replica was available at times, although the budget allows one disruption")
	}
	for _, name := range names {
		podGone(t, rome, o.namespace, onto+name)
		podGone(t, milan, o.remote, onto+name)
	}
	if most.Cmp(sum) <= 0 {
		// The pod fits again, because rome's scheduler has one large virtual node.
		podThat(t, rome, o.namespace, "large", "be bound to "+virtualNode,
			func(p *corev1.Pod) bool { return p.Spec.NodeName == virtualNode })
		podThat(t, milan, o.remote, "large", "fit no node", func(p *corev1.Pod) bool { return whereIs(p) == "unschedulable" })
	}
	// The large pod would leave too few resources for the next steps.
	kubectl(t, rome, "delete", "pod", "large", "-n", o.namespace, "--timeout=110s")
}

// offersIn sets the shape of milan's offers to rome. null applies the default of the installation.
func offersIn(t *testing.T, shape string) {
	t.Helper()
	kubectl(t, milan, "patch", "foreigncluster", "rome", "--type=merge", "-p",
		`{"spec":{"incomingPolicy":{"shape":`+shape+`}}}`)
}

// virtualNodesAre waits until rome's virtual nodes have exactly these names and are Ready, and
// returns them.
func virtualNodesAre(t *testing.T, names ...string) []corev1.Node {
	t.Helper()
	var nodes []corev1.Node
	eventually(t, soon, fmt.Sprintf("the virtual nodes of rome to be %v", names),
		func(ctx context.Context) (bool, string, error) {
			list, err := rome.Kube.CoreV1().Nodes().List(ctx,
				metav1.ListOptions{LabelSelector: v1alpha1.LabelType + "=" + v1alpha1.TypeVirtualNode})
			if err != nil {
				return false, "", err
			}
			nodes = list.Items
			ready, saw := len(nodes) == len(names), ""
			for i := range nodes {
				ready = ready && slices.Contains(names, nodes[i].Name) && nodeReady(&nodes[i])
				saw += fmt.Sprintf("%s, ready: %t; ", nodes[i].Name, nodeReady(&nodes[i]))
			}
			return ready, saw, nil
		})
	return nodes
}

// isOn waits until an application has exactly count Ready pods on these virtual nodes.
func isOn(t *testing.T, o offload, app string, count int, names []string) {
	t.Helper()
	for _, pod := range podsReady(t, rome, o.namespace, "app="+app, count) {
		if !slices.Contains(names, pod.Spec.NodeName) {
			t.Errorf("pod %s is on %s, which is none of %v", pod.Name, pod.Spec.NodeName, names)
		}
		podReady(t, milan, o.remote, pod.Name)
	}
}

// opensEveryNode makes every node of milan schedulable, and assigns each to a zone of its own,
// since offers have the zones of nodes. The returned function reverts both changes.
func opensEveryNode(t *testing.T) func() {
	t.Helper()
	nodes := realNodes(t, milan)
	change := func(node corev1.Node, zone *string, taints []corev1.Taint) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"labels": map[string]*string{corev1.LabelTopologyZone: zone}},
			"spec":     map[string]any{"taints": taints},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := milan.Kube.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, node := range nodes {
		change(node, &node.Name, nil)
	}
	return func() {
		for _, node := range nodes {
			change(node, nil, node.Spec.Taints)
		}
	}
}
