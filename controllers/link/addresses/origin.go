// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// kind is the kind of an origin. Each controller that creates AddressMappings has one kind.
type kind int

const (
	// ofPod is the kind of an origin that is a pod on a provider.
	ofPod kind = iota
	// ofEndpoints is the kind of an origin that is a namespace with endpoints that are not pods.
	ofEndpoints
	// ofAPIServer is the kind of an origin that is the ForeignCluster of a provider on which offloaded pods reach the
	// local API server.
	ofAPIServer
)

// origin is the object for which an AddressMapping was created. Its key is also the key of the requests of
// its controller: namespace and name of a pod, or the name of a namespace or ForeignCluster.
type origin struct {
	kind kind
	key  types.NamespacedName
}

// String returns the value of the origin in indexOrigin and in the names of AddressMappings.
func (o origin) String() string {
	switch o.kind {
	case ofPod:
		return o.key.String()
	case ofEndpoints:
		return o.key.Name + "/"
	default:
		return o.key.Name
	}
}

// owner returns the object that gets the events about an origin: the NamespaceOffloading of its namespace,
// or the ForeignCluster.
func (o origin) owner() client.Object {
	if o.kind == ofAPIServer {
		fc := &v1alpha1.ForeignCluster{}
		fc.Name = o.key.Name
		return fc
	}
	offloading := &v1alpha1.NamespaceOffloading{}
	offloading.Namespace, offloading.Name = o.key.Namespace, v1alpha1.NamespaceOffloadingName
	if o.kind == ofEndpoints {
		offloading.Namespace = o.key.Name
	}
	return offloading
}

// isSingle reports whether the controllers of this package created an AddressMapping. Package link/tunnel
// creates the AddressMappings of ranges.
func isSingle(mapping *v1alpha1.AddressMapping) bool {
	return mapping.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && mapping.Labels[v1alpha1.LabelOrigin] != ""
}

// originOf returns the origin of an AddressMapping for which isSingle returns true.
func originOf(mapping *v1alpha1.AddressMapping) origin {
	if namespace := mapping.Annotations[v1alpha1.AnnotationOriginNamespace]; namespace != "" {
		return origin{kind: ofEndpoints, key: types.NamespacedName{Name: namespace}}
	}
	pod, err := cache.ParseObjectName(mapping.Annotations[v1alpha1.AnnotationOriginPod])
	if err == nil && pod.Namespace != "" {
		return origin{kind: ofPod, key: pod.AsNamespacedName()}
	}
	return origin{kind: ofAPIServer, key: types.NamespacedName{Name: mapping.Labels[v1alpha1.LabelForeignCluster]}}
}

// single returns the AddressMapping by which one peer reaches an address of an origin. namespace is the installation
// namespace, and from the ID of the cluster that has the address.
func single(namespace string, of origin, from string, peer peer, address netip.Addr) *v1alpha1.AddressMapping {
	sum := sha256.Sum256([]byte(strings.Join([]string{peer.clusterID, of.String(), address.String()}, " ")))
	mapping := &v1alpha1.AddressMapping{Spec: v1alpha1.AddressMappingSpec{
		ClusterID: peer.clusterID, Pool: v1alpha1.ExternalAddressPool, Address: address.String(),
	}}
	mapping.Namespace, mapping.Name = namespace, peer.name+"-"+hex.EncodeToString(sum[:10])
	mapping.Labels = map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: peer.name, v1alpha1.LabelOrigin: from,
	}
	switch of.kind {
	case ofPod:
		mapping.Annotations = map[string]string{v1alpha1.AnnotationOriginPod: of.String()}
	case ofEndpoints:
		mapping.Annotations = map[string]string{v1alpha1.AnnotationOriginNamespace: of.key.Name}
	}
	return mapping
}

// toOrigin returns a handler that enqueues the origin of an AddressMapping if the origin is of this kind.
func toOrigin(kind kind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		mapping, ok := object.(*v1alpha1.AddressMapping)
		if !ok {
			return nil
		}
		return requestsOf(kind, []v1alpha1.AddressMapping{*mapping})
	})
}

// requestsOf returns a reconcile request for each AddressMapping that was created for an object of this kind (its
// origin): a pod, a namespace with endpoints, or a ForeignCluster. AddressMappings of ranges get none.
func requestsOf(kind kind, mappings []v1alpha1.AddressMapping) []reconcile.Request {
	var requests []reconcile.Request
	for i := range mappings {
		if !isSingle(&mappings[i]) {
			continue
		}
		if of := originOf(&mappings[i]); of.kind == kind {
			requests = append(requests, reconcile.Request{NamespacedName: of.key})
		}
	}
	return requests
}
