// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// labelNodeRoleAgent makes kubectl show the role agent for virtual nodes.
	labelNodeRoleAgent = "node-role.kubernetes.io/agent"
	// labelExternalBalancers excludes a node from external load balancers: a virtual node cannot receive their traffic.
	labelExternalBalancers = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// maxAllocatable is the maximum of each resource of a Node, in the unit in which kube-scheduler counts it. The scores
// of its plugin NodeResourcesFit multiply amounts by MaxNodeScore, 100, in an int64
// (pkg/scheduler/framework/plugins/noderesources/least_allocated.go). If that overflows, the score is invalid, and
// kube-scheduler binds the pod to no node at all. The maximum permits the sum of a thousand nodes.
const maxAllocatable = 1 << 53

// NodeFacts has the parts of a Node that are not in its VirtualNode.
type NodeFacts struct {
	// Address and Port are the endpoint of the virtual kubelet's API.
	Address string
	Port    int32
	// KubeletVersion is the version of the provider's API server.
	KubeletVersion string
	// Ready is the condition Ready. Its times are set by the caller.
	Ready corev1.NodeCondition
}

// Node returns the Node of a VirtualNode, with the taint TaintVirtualNode. Resources, which the provider offers, are at
// most maxAllocatable.
func Node(vn *v1alpha1.VirtualNode, facts NodeFacts) *corev1.Node {
	labels := maps.Clone(vn.Spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		v1alpha1.LabelType:            v1alpha1.TypeVirtualNode,
		v1alpha1.LabelRemoteClusterID: vn.Spec.ClusterID,
		corev1.LabelHostname:          vn.Spec.NodeName,
		labelNodeRoleAgent:            "",
		labelExternalBalancers:        "true",
	})
	// Labels in the spec of the VirtualNode take precedence over these defaults.
	for name, value := range map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
	} {
		if _, ok := labels[name]; !ok {
			labels[name] = value
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: vn.Spec.NodeName, Labels: labels},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: v1alpha1.TaintVirtualNode, Value: "true", Effect: corev1.TaintEffectNoExecute,
		}}},
		Status: corev1.NodeStatus{
			Capacity:    bounded(vn.Spec.Resources),
			Allocatable: bounded(vn.Spec.Resources),
			Conditions:  []corev1.NodeCondition{facts.Ready},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: facts.Address},
				{Type: corev1.NodeHostName, Address: vn.Spec.NodeName},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: facts.Port}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:  facts.KubeletVersion,
				OperatingSystem: labels[corev1.LabelOSStable],
				Architecture:    labels[corev1.LabelArchStable],
			},
		},
	}
}

// bounded returns a copy of resources with amounts of at most maxAllocatable: millicores of cpu, and units of others.
func bounded(resources corev1.ResourceList) corev1.ResourceList {
	bounded := resources.DeepCopy()
	for name, quantity := range bounded {
		most := resource.NewQuantity(maxAllocatable, quantity.Format)
		if name == corev1.ResourceCPU {
			most = resource.NewMilliQuantity(maxAllocatable, quantity.Format)
		}
		if quantity.Cmp(*most) > 0 {
			bounded[name] = *most
		}
	}
	return bounded
}

// SameNode reports whether two Nodes are equal except for heartbeat times.
func SameNode(a, b *corev1.Node) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, node := range []*corev1.Node{a, b} {
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}
