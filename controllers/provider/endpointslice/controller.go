// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
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
	"liqo.io/federation/controllers/link/clusterinfo"
)

// Name is the name of the controller in --controllers, logs, metrics and events.
const Name = "shadow-endpointslice"

const (
	workers = 4
	// writeInterval is the minimum time between two writes of one EndpointSlice. It limits the writes that
	// a consumer can cause by changing its endpoints.
	writeInterval = time.Second
	// settleDelay is the delay of reconciles after the ranges in ClusterInfo local changed, so that they handle further
	// changes, too.
	settleDelay = time.Second
)

// Network has the settings that limit the addresses of consumers' endpoints.
type Network struct {
	// Refused are CIDRs in which no endpoint of a consumer may have an address, in addition to the CIDRs
	// of the nodes, pods and Services of this cluster.
	Refused []netip.Prefix
	// Networking applies to ForeignClusters that do not set spec.networking.
	Networking v1alpha1.NetworkingMode
	// Namespace is the namespace of the TunnelEndpoints. If networking is Tunnel, the endpoints of a
	// consumer must be in the ranges of its tunnel.
	Namespace string
}

// Reconciler ensures an EndpointSlice for each ShadowEndpointSlice.
type Reconciler struct {
	// Client reads the cache of the manager, Live the API server.
	Client client.Client
	Live   client.Reader
	// Network limits the addresses of consumers' endpoints.
	Network Network
	Clock   clock.PassiveClock

	// owned reads a cache of the EndpointSlices that this controller manages, and of the
	// TunnelEndpoints.
	owned client.Reader

	// mutex guards written, which has the time of the last write of each EndpointSlice.
	mutex   sync.Mutex
	written map[client.ObjectKey]time.Time
}

// SetupWithManager adds the controller to a manager. It uses a cache of its own for the EndpointSlices
// with the label of Liqo Federation and for the TunnelEndpoints of one namespace, because the controllers
// may not read others.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	owned, err := kit.NewCache(manager, map[client.Object]cache.ByObject{
		&discoveryv1.EndpointSlice{}: {
			Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: v1alpha1.ManagedBy}),
		},
		&v1alpha1.TunnelEndpoint{}: {Namespaces: map[string]cache.Config{r.Network.Namespace: {}}},
	})
	if err != nil {
		return err
	}
	_, err = manager.GetCache().GetInformer(context.Background(), &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("caching namespaces: %w", err)
	}
	r.owned = owned
	ofSlice := &handler.EnqueueRequestForObject{}
	ofConsumer := handler.EnqueueRequestsFromMapFunc(r.requestsOfConsumer)
	return ctrl.NewControllerManagedBy(manager).Named(Name).
		For(&v1alpha1.ShadowEndpointSlice{}).
		Watches(&v1alpha1.ForeignCluster{}, ofConsumer, builder.WithPredicates(kit.Changed(reachabilityChanged))).
		Watches(&v1alpha1.ClusterInfo{},
			kit.EnqueueAfter(settleDelay, kit.RequestsOfAll(r.Client, &v1alpha1.ShadowEndpointSliceList{})),
			builder.WithPredicates(clusterinfo.RangesChanged())).
		WatchesRawSource(source.Kind[client.Object](owned, &discoveryv1.EndpointSlice{}, ofSlice)).
		WatchesRawSource(source.Kind[client.Object](owned, &v1alpha1.TunnelEndpoint{}, ofConsumer,
			kit.Changed(tunnelChanged))).
		WithOptions(kit.Options(workers)).
		Complete(r)
}

// reachabilityChanged reports whether the endpoints of a consumer became reachable or unreachable, or the
// networking of its ForeignCluster or the trust in the consumer changed.
func reachabilityChanged(old, current *v1alpha1.ForeignCluster) bool {
	return reachability(old) != reachability(current) || old.Spec.Networking != current.Spec.Networking ||
		old.Spec.Trust != current.Spec.Trust
}

// tunnelChanged reports whether the ranges of the peer in a TunnelEndpoint changed.
func tunnelChanged(old, current *v1alpha1.TunnelEndpoint) bool {
	return !equality.Semantic.DeepEqual(old.Spec.Remote, current.Spec.Remote)
}

// requestsOfConsumer maps a ForeignCluster, or the TunnelEndpoint of the same name, to the
// ShadowEndpointSlices in the remote namespaces of that consumer.
func (r *Reconciler) requestsOfConsumer(ctx context.Context, object client.Object) []reconcile.Request {
	var namespaces corev1.NamespaceList
	_ = r.Client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy,
		client.MatchingLabels{
			v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: object.GetName(),
		})
	var all []reconcile.Request
	for i := range namespaces.Items {
		all = append(all, kit.RequestsOfAll(r.Client, &v1alpha1.ShadowEndpointSliceList{},
			client.InNamespace(namespaces.Items[i].Name))(ctx, nil)...)
	}
	return all
}

// untilWrite returns the time until an EndpointSlice may be written again.
func (r *Reconciler) untilWrite(key client.ObjectKey) time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	last, ok := r.written[key]
	if !ok {
		return 0
	}
	return max(0, writeInterval-r.Clock.Since(last))
}

// recordWrite sets the time of the last write of an EndpointSlice to now.
func (r *Reconciler) recordWrite(key client.ObjectKey) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.written == nil {
		r.written = map[client.ObjectKey]time.Time{}
	}
	r.written[key] = r.Clock.Now()
}

// forget drops the time of the last write of an EndpointSlice.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.written, key)
}
