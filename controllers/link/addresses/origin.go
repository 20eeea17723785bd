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

// kind is the kind of an origin, one for each controller.
type kind int

const (
	// ofPod is the kind of a pod on a provider.
	ofPod kind = iota
	// ofEndpoints is the kind of the endpoints of a namespace that are no pods.
	ofEndpoints
	// ofAPIServer is the kind of the API server as the pods of one ForeignCluster reach it.
	ofAPIServer
)

// origin is the object for which a mapping was created. Its key is the key of its controller's
// requests: a pod, a namespace as the name, or a ForeignCluster.
type origin struct {
	kind kind
	key  types.NamespacedName
}

// String returns the form in which origins are indexed and part of the names of mappings.
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

// owner returns the object that events of an origin are about: the NamespaceOffloading of its
// namespace, or the ForeignCluster.
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

// isSingle reports whether a mapping was created by the controllers of this package, and is not
// of a range of a peer.
func isSingle(mapping *v1alpha1.AddressMapping) bool {
	return mapping.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && mapping.Labels[v1alpha1.LabelOrigin] != ""
}

// originOf returns the origin of a single mapping.
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

// single returns the mapping of an address of an origin for one peer. The origin is in the
// cluster of the ID from.
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

// toOrigin returns a handler that requests a pass over the origin of a mapping, if it is of a
// kind.
func toOrigin(kind kind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		mapping, ok := object.(*v1alpha1.AddressMapping)
		if !ok {
			return nil
		}
		return requestsOf(kind, []v1alpha1.AddressMapping{*mapping})
	})
}

// requestsOf returns the requests of the origins of mappings that are of a kind.
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
