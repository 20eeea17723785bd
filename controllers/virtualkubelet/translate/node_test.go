// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// kube-scheduler multiplies amounts of Nodes by 100 in an int64.
func TestAmountsOfANodeDoNotOverflowInTheScheduler(t *testing.T) {
	const score = 100
	for _, test := range []struct {
		name          corev1.ResourceName
		offered, want string
	}{
		{corev1.ResourceCPU, "300T", "9007199254740992m"},
		{corev1.ResourceCPU, "1E", "9007199254740992m"},
		{corev1.ResourceCPU, "7", "7"},
		{corev1.ResourceMemory, "300P", "9007199254740992"},
		{corev1.ResourceMemory, "8Pi", "8Pi"},
		{corev1.ResourceEphemeralStorage, "4Ei", "8Pi"},
		{corev1.ResourcePods, "9223372036854775807", "9007199254740992"},
		{"nvidia.com/gpu", "1E", "9007199254740992"},
		{"hugepages-2Mi", "1000E", "8Pi"},
	} {
		t.Run(string(test.name)+" "+test.offered, func(t *testing.T) {
			vn := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{
				Resources: corev1.ResourceList{test.name: resource.MustParse(test.offered)},
			}}
			status := Node(vn, NodeFacts{}).Status
			for _, list := range []corev1.ResourceList{status.Allocatable, status.Capacity} {
				got := list[test.name]
				if got.Cmp(resource.MustParse(test.want)) != 0 {
					t.Errorf("got %s, want %s", got.String(), test.want)
				}
				amount := got.Value()
				if test.name == corev1.ResourceCPU {
					amount = got.MilliValue()
				}
				if amount*score/score != amount {
					t.Errorf("%s overflows", got.String())
				}
			}
		})
	}
}

func TestNodeOfAVirtualNode(t *testing.T) {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:  resource.MustParse("7"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	vn := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{
		ClusterID: "milan-id", NodeName: "liqo-milan", Resources: resources,
		Labels: map[string]string{
			"topology.liqo.io/region": "it", corev1.LabelArchStable: "arm64",
			// A provider cannot set these labels.
			corev1.LabelHostname: "control-plane", v1alpha1.LabelRemoteClusterID: "other-id",
		},
	}}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: start}
	node := Node(vn, NodeFacts{Address: nodeIP, Port: 10250, KubeletVersion: "v1.37.1", Ready: ready})

	want := map[string]string{
		"topology.liqo.io/region": "it", "liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan-id",
		"kubernetes.io/hostname": "liqo-milan", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
		"node-role.kubernetes.io/agent": "", "node.kubernetes.io/exclude-from-external-load-balancers": "true",
	}
	if diff := cmp.Diff(want, node.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		[]corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}},
		node.Spec.Taints,
	); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(resources, node.Status.Allocatable); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(resources, node.Status.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if got := node.Status.DaemonEndpoints.KubeletEndpoint.Port; got != 10250 ||
		node.Status.Addresses[0].Address != nodeIP {
		t.Errorf("kubelet at %v port %d", node.Status.Addresses, got)
	}
	if vn.Spec.Labels[corev1.LabelHostname] != "control-plane" {
		t.Error("the VirtualNode was changed")
	}
}

// The attach-detach controller manages Nodes with its annotation, and would attach the volumes of pods to a virtual
// node.
func TestVirtualNodeAttachesNoVolumes(t *testing.T) {
	node := Node(&v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{
		NodeName: "liqo-milan",
		Labels:   map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}, NodeFacts{})
	if len(node.Annotations) > 0 {
		t.Errorf("the node has annotations %v", node.Annotations)
	}
	if len(node.Status.VolumesAttached)+len(node.Status.VolumesInUse) > 0 {
		t.Errorf("the node has volumes %v and uses %v", node.Status.VolumesAttached, node.Status.VolumesInUse)
	}
}

func TestHeartbeatDoesNotChangeANode(t *testing.T) {
	node := func(heartbeat metav1.Time, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: heartbeat},
				},
			},
		}
	}
	if !SameNode(node(start, corev1.ConditionTrue), node(later, corev1.ConditionTrue)) {
		t.Error("a heartbeat changes the Node")
	}
	if SameNode(node(start, corev1.ConditionTrue), node(start, corev1.ConditionFalse)) {
		t.Error("a condition does not change the Node")
	}
}
