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
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "cluster-info"

// rereadInterval is the time between two reads of the sources that are not watched: the
// ConfigMaps and the objects of CNIs.
const rereadInterval = 2 * time.Minute

// externalPool is the AddressPool of external CIDRs.
const externalPool = "external"

// Cluster is what is configured of the local cluster.
type Cluster struct {
	ID, Name string
	// Labels are those that consumers receive.
	Labels map[string]string
	// Namespace is that of the installation.
	Namespace string
	// Endpoints are those of the gateway, if an administrator names them.
	Endpoints []string
}

// Endpoints returns the endpoints at which peers reach the gateway by its Service.
type Endpoints interface {
	Endpoints() ([]string, error)
}

// Reconciler keeps ClusterInfo local.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Nodes, ServiceCIDRs and Pools are those of the cluster, APIServers the EndpointSlices
	// of Service kubernetes, and Tunnels the TunnelEndpoints of the installation.
	Nodes        corelisters.NodeLister
	ServiceCIDRs networkinglisters.ServiceCIDRLister
	APIServers   discoverylisters.EndpointSliceLister
	Pools        listers.AddressPoolLister
	Tunnels      listers.TunnelEndpointNamespaceLister
	// Gateway is nil where no Service leads to the gateway.
	Gateway Endpoints
	Cluster Cluster
	Values  Values
	// Events receives events of the ClusterInfo.
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// APIServers returns the options of informers of the EndpointSlices of Service kubernetes.
func APIServers() []informers.SharedInformerOption {
	return []informers.SharedInformerOption{
		informers.WithNamespace(metav1.NamespaceDefault),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = labels.Set{discoveryv1.LabelServiceName: "kubernetes"}.String()
		}),
	}
}

// Watched are the informers of what the Reconciler reads.
type Watched struct {
	Nodes, ServiceCIDRs, APIServers, Pools, Tunnels cache.SharedIndexInformer
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, watched Watched) error {
	local := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{request}
	})
	builder := ctrl.NewControllerManagedBy(manager).Named(Name).For(&v1alpha1.ClusterInfo{}).WithOptions(kit.Options(1))
	for _, informer := range []cache.SharedIndexInformer{
		watched.Nodes, watched.ServiceCIDRs, watched.APIServers, watched.Pools, watched.Tunnels,
	} {
		builder = builder.WatchesRawSource(&source.Informer{Informer: informer, Handler: local, Predicates: []predicate.Predicate{rangesChanged}})
	}
	return builder.Complete(r)
}

// request is that of the one ClusterInfo.
var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.ClusterInfoName}}

// rangesChanged passes updates after which an object names other ranges.
var rangesChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(rangesOf(e.ObjectOld), rangesOf(e.ObjectNew))
}}

// rangesOf returns the part of an object that names ranges.
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
