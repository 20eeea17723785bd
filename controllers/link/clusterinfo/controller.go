// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "cluster-info"

// rereadInterval is the time between two reads of the sources that are not watched: ConfigMaps, and the
// custom resources of CNIs.
const rereadInterval = 2 * time.Minute

// Cluster has the settings of the local cluster that ClusterInfo local publishes.
type Cluster struct {
	ID, Name string
	// Labels are the labels that consumers set on their virtual nodes for this cluster.
	Labels map[string]string
	// Namespace is the namespace of the installation.
	Namespace string
	// Endpoints are the endpoints of the gateway that an administrator set; empty if they are derived from the
	// gateway's Service.
	Endpoints []string
}

// Endpoints derives the endpoints at which peers reach the gateway from the gateway's Service.
type Endpoints interface {
	Endpoints(ctx context.Context) ([]string, error)
}

// Reconciler ensures ClusterInfo local.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Gateway finds the endpoints of the gateway; nil if the gateway has no Service.
	Gateway Endpoints
	Cluster Cluster
	Values  Values
	// Events receives events of the ClusterInfo.
	Events record.EventRecorder
	Clock  clock.PassiveClock

	// servers reads the EndpointSlices of Service kubernetes, and installation the TunnelEndpoints and the public key of
	// the gateway in the installation namespace.
	servers, installation client.Reader
}

// SetupWithManager adds the controller to a manager, with a cache of the EndpointSlices of
// Service kubernetes. installation caches the TunnelEndpoints and the ConfigMap with the public key of the gateway.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, installation cache.Cache) error {
	servers, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&discoveryv1.EndpointSlice{}: {Namespaces: map[string]cache.Config{metav1.NamespaceDefault: {
			LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "kubernetes"}),
		}}},
	})
	if err != nil {
		return err
	}
	r.installation, r.servers = installation, servers
	local := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{request}
	})
	named := builder.WithPredicates(rangesChanged)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ClusterInfo{}).
		Watches(&corev1.Node{}, local, named).
		Watches(&networkingv1.ServiceCIDR{}, local, named).
		Watches(&v1alpha1.AddressPool{}, local, named).
		WatchesRawSource(source.Kind[client.Object](servers, &discoveryv1.EndpointSlice{}, local, rangesChanged)).
		WatchesRawSource(source.Kind[client.Object](installation, &v1alpha1.TunnelEndpoint{}, local, rangesChanged)).
		WatchesRawSource(source.Kind[client.Object](installation, &corev1.ConfigMap{}, local)).
		WithOptions(kit.Options(1)).
		Complete(r)
}

// request is the request of ClusterInfo local, the only ClusterInfo.
var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterInfoName}}

// rangesChanged selects creations, deletions, and updates that change a field from which ranges are read.
var rangesChanged = kit.Changed(func(old, current client.Object) bool {
	return !equality.Semantic.DeepEqual(rangesOf(old), rangesOf(current))
})

// rangesOf returns the values of those fields of an object from which ranges are read.
func rangesOf(object client.Object) []any {
	switch o := object.(type) {
	case *corev1.Node:
		named := []any{o.Spec.PodCIDRs, o.Status.Addresses}
		for _, annotation := range argsAnnotations {
			named = append(named, o.Annotations[annotation])
		}
		return named
	case *networkingv1.ServiceCIDR:
		return []any{o.Spec.CIDRs}
	case *discoveryv1.EndpointSlice:
		return []any{o.Endpoints}
	case *v1alpha1.AddressPool:
		return []any{o.Spec.CIDRs}
	case *v1alpha1.TunnelEndpoint:
		return []any{o.Spec.Local, o.Spec.Remote}
	}
	return nil
}
