// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placements

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
)

// Provider returns a provider with an enabled outgoing peering, and with one virtual node in a
// region.
func Provider(name, region string, change ...func(*placement.Provider)) placement.Provider {
	provider := placement.Provider{
		Cluster: &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ForeignClusterSpec{Outgoing: v1alpha1.PeeringEnabled},
		},
		VirtualNodes: []*v1alpha1.VirtualNode{{Spec: v1alpha1.VirtualNodeSpec{
			NodeName: naming.NodeName(name), Labels: map[string]string{"region": region},
		}}},
	}
	for _, change := range change {
		change(&provider)
	}
	return provider
}

// InRegion returns the spec of an offloading to the clusters in these regions. Without regions, it
// selects all clusters.
func InRegion(regions ...string) *v1alpha1.NamespaceOffloadingSpec {
	spec := &v1alpha1.NamespaceOffloadingSpec{}
	if len(regions) > 0 {
		spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{
			Term(Requirement("region", corev1.NodeSelectorOpIn, regions...)),
		}
	}
	return spec
}

// Requirement returns a requirement of a node selector.
func Requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// Term returns a node selector term with these requirements of labels.
func Term(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

// NoNodes finds no node of any name.
func NoNodes(string) *corev1.Node { return nil }

// PodOn returns a pod that is bound to a node and running.
func PodOn(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range change {
		change(pod)
	}
	return pod
}

// OwnedBy returns a function that sets a controller of this kind as the owner of a pod.
func OwnedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web",
			Controller: ptr.To(true)}}
	}
}
