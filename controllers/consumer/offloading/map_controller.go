// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// MapName is the name of the controller of NamespaceMaps in --controllers, logs, metrics and
// events.
const MapName = "namespace-map"

// mapWorkers is the number of NamespaceMaps that are reconciled in parallel.
const mapWorkers = 2

// MapReconciler writes the NamespaceMap of each provider.
type MapReconciler struct{ *Config }

// SetupWithManager adds the controller to a manager.
func (r *MapReconciler) SetupWithManager(manager ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(kit.RequestsOfAll(r.Client, &v1alpha1.ForeignClusterList{}))
	ofPeer := handler.EnqueueRequestsFromMapFunc(kit.OfPeerNamespace)
	return ctrl.NewControllerManagedBy(manager).Named(MapName).
		For(&v1alpha1.ForeignCluster{}, builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceOffloading{}, all, builder.WithPredicates(kit.SpecChanged())).
		Watches(&v1alpha1.NamespaceMap{}, ofPeer,
			builder.WithPredicates(kit.SpecChanged(), predicate.NewPredicateFuncs(r.consumerOf))).
		Watches(&v1alpha1.VirtualNode{}, ofPeer, builder.WithPredicates(kit.SpecChanged())).
		Watches(&corev1.Node{}, all, builder.WithPredicates(nodeChanged(), isVirtual)).
		Watches(&corev1.Namespace{}, ofPeer, builder.WithPredicates(namespaceChanged())).
		WatchesRawSource(&r.maps).
		WithOptions(kit.Options(mapWorkers)).
		Complete(r)
}
