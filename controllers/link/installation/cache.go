// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation caches the objects in the installation namespace that the controllers in
// controllers/link read.
package installation

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// gatewayLabel is the label of the gateway's pods; its value is v1alpha1.GatewayName.
const gatewayLabel = "app.kubernetes.io/name"

// NewCache returns a cache of the installation namespace. A kind is cached once a controller watches it.
// The cache contains only:
//
//   - TunnelEndpoints, TunnelReaches and AddressMappings;
//   - the ConfigMap with the public key of the gateway;
//   - the Service of the gateway, its EndpointSlice, its Lease and its pods.
//
// RBAC does not allow the controllers to read other ConfigMaps, and they do not need other objects.
func NewCache(manager ctrl.Manager, namespace string) (cache.Cache, error) {
	in := func(config cache.Config) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{namespace: config}}
	}
	named := func(name string) cache.Config {
		return cache.Config{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
	}
	ofGateway := labels.SelectorFromSet(labels.Set{gatewayLabel: v1alpha1.GatewayName})
	return kit.NewCache(manager, map[client.Object]cache.ByObject{
		&v1alpha1.TunnelEndpoint{}:   in(cache.Config{}),
		&v1alpha1.TunnelReach{}:      in(cache.Config{}),
		&v1alpha1.AddressMapping{}:   in(cache.Config{}),
		&corev1.ConfigMap{}:          in(named(v1alpha1.WireGuardConfigMap)),
		&corev1.Service{}:            in(named(v1alpha1.GatewayName)),
		&discoveryv1.EndpointSlice{}: in(named(v1alpha1.GatewayName)),
		&coordinationv1.Lease{}:      in(named(v1alpha1.GatewayName)),
		&corev1.Pod{}:                in(cache.Config{LabelSelector: ofGateway}),
	})
}
