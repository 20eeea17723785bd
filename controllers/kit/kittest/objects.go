// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kittest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// Indexer returns an informer's store with objects, indexed by namespace.
func Indexer(objects ...client.Object) cache.Indexer {
	indexer := cache.NewIndexer(
		cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	)
	for _, object := range objects {
		// Add fails only for an object without metadata.
		_ = indexer.Add(object)
	}
	return indexer
}

// Resources returns a resource list from alternating names and quantities.
func Resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// ForeignCluster returns a ForeignCluster with the finalizer of its controller. Its UID is its name with the
// suffix "-uid".
func ForeignCluster(name, clusterID string, outgoing, incoming v1alpha1.PeeringIntent) *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name + "-uid"), Generation: 1, Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.ForeignClusterSpec{
			ClusterID: clusterID, Outgoing: outgoing, Incoming: incoming, Trust: v1alpha1.TrustSameOwner,
		},
	}
}

// VirtualNode returns the VirtualNode of a ForeignCluster, in the peer namespace and with the name of the
// ForeignCluster.
func VirtualNode(foreignCluster, clusterID string) *v1alpha1.VirtualNode {
	return &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: naming.PeerNamespace(foreignCluster), Name: foreignCluster},
		Spec:       v1alpha1.VirtualNodeSpec{ClusterID: clusterID, NodeName: naming.NodeName(foreignCluster)},
	}
}

// PeeringNamespace returns a namespace of the peering with a ForeignCluster. role is RoleTenant, RolePeer or
// RoleRemoteNamespace of package v1alpha1. With a finalizer, the namespace remains while it is being deleted, as it
// would while it contains objects.
func PeeringNamespace(name, role, foreignCluster string, finalizers ...string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: finalizers,
		Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelForeignCluster: foreignCluster},
	}}
}
