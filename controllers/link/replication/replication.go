// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication keeps the two copies of each object of a negotiation equal. The
// consumer's controllers do it for both clusters: they write the consumer's ResourceRequest
// and NamespaceMap into its tenant namespace on the provider, and mirror the provider's
// ResourceOffers. A spec is copied from its owner, and the status is copied back.
// NetworkConfigs are copied in both directions while the consumer has one.
package replication

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Name is the name of the controllers in --controllers. In logs and metrics it is followed by
// the kind, for example replication-resource-offer.
const Name = "replication"

const (
	// workers is how many pairs of one kind are reconciled at a time.
	workers = 4
	// rejectedRetry is the time after which a pair that the provider did not permit to write
	// is reconciled again.
	rejectedRetry = 15 * time.Second
	// syncRetry is the time after which a pair is reconciled again whose kind is not cached.
	syncRetry = time.Second
)

// Replicator replicates to and from each provider that this cluster is connected to.
type Replicator struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Peers are the connections to the providers.
	Peers *remote.Peers
	// ClusterName is the name of this cluster. Only requests and maps of this name are sent.
	ClusterName string
}

// SetupWithManager adds a controller for each kind to a manager.
func (r *Replicator) SetupWithManager(manager ctrl.Manager) error {
	networks := newNetworkPairs(r)
	for _, pairs := range []pairs{requestPairs{r}, mapPairs{r}, offerPairs{r}, networks} {
		if err := newReconciler(r, pairs).setUp(manager); err != nil {
			return fmt.Errorf("adding the controller of each %s: %w", pairs.title(), err)
		}
	}
	return nil
}

// pairs are the pairs of objects of one kind.
type pairs interface {
	// title names the kind in errors.
	title() string
	// object returns an object of the kind without content.
	object() client.Object
	// concerned returns the names of the pairs that a change of an object concerns.
	concerned(object string) []string
	// local returns the names of the pairs that may exist in this cluster alone.
	local(ctx context.Context, namespace string) ([]string, error)
	// connected prepares for a connection to a provider, which ends with the context, and
	// returns the informer there; nil if the kind is not watched from the beginning.
	connected(ctx context.Context, peer *remote.Peer) cache.SharedIndexInformer
	// replicate makes a pair equal. The key names the local object. A pair that cannot
	// be read yet is to be replicated again after the returned time.
	replicate(ctx context.Context, key types.NamespacedName, peer *remote.Peer, watcher watcher) (time.Duration, error)
}

// watcher is the part of a controller that adds a source.
type watcher interface {
	Watch(source source.Source) error
}

// reconciler reconciles the pairs of one kind. Its requests name local objects.
type reconciler struct {
	peers   *remote.Peers
	pairs   pairs
	watcher watcher
}

func newReconciler(r *Replicator, pairs pairs) *reconciler {
	return &reconciler{peers: r.Peers, pairs: pairs}
}

// setUp adds the controller to a manager.
func (r *reconciler) setUp(manager ctrl.Manager) error {
	controller, err := ctrl.NewControllerManagedBy(manager).
		Named(Name+"-"+strings.ReplaceAll(r.pairs.title(), " ", "-")).
		Watches(r.pairs.object(), handler.EnqueueRequestsFromMapFunc(r.requestsOf)).
		WithOptions(kit.Options(workers)).
		Build(r)
	if err != nil {
		return err
	}
	r.follow(controller)
	return nil
}

// follow adds the objects of each provider that this cluster connects to from now on.
func (r *reconciler) follow(watcher watcher) {
	r.watcher = watcher
	r.peers.Subscribe(r.connect)
}

// requestsOf maps a local object to the pairs that it concerns.
func (r *reconciler) requestsOf(_ context.Context, object client.Object) []reconcile.Request {
	if !naming.IsPeerNamespace(object.GetNamespace()) {
		return nil
	}
	return requestsFor(object.GetNamespace(), r.pairs.concerned(object.GetName()))
}

func requestsFor(namespace string, names []string) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range names {
		requests = append(requests, kit.Request(namespace, name))
	}
	return requests
}

// connect watches a provider until the context ends.
func (r *reconciler) connect(ctx context.Context, foreignCluster string, peer *remote.Peer) error {
	informer := r.pairs.connected(ctx, peer)
	return r.watcher.Watch(&connection{
		ended: ctx.Done(), namespace: naming.PeerNamespace(foreignCluster), pairs: r.pairs, informer: informer,
	})
}

// Reconcile makes a pair equal.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	peer, ok := r.peers.Get(naming.ForeignClusterOf(request.Namespace))
	if !ok {
		// The next connection requests the pair again.
		return ctrl.Result{}, nil
	}
	after, err := r.pairs.replicate(ctx, request.NamespacedName, peer, r.watcher)
	if remote.Rejected(err) {
		// The identity is not accepted, or the namespace is terminating: the controller of the
		// ForeignCluster repairs or reports that.
		klog.FromContext(ctx).Info("Replication is not permitted, retrying later", "reason", err.Error())
		return ctrl.Result{RequeueAfter: rejectedRetry}, nil
	}
	return kit.Result(after, err)
}

// connection is the source of the requests that one connection leads to: of pairs that exist
// in this cluster alone when it begins, and of each change at the provider.
type connection struct {
	ended     <-chan struct{}
	namespace string
	pairs     pairs
	informer  cache.SharedIndexInformer
}

// Start implements source.Source. A connection that ended before its controller started leads
// to nothing.
func (c *connection) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	select {
	case <-c.ended:
		return nil
	default:
	}
	names, err := c.pairs.local(ctx, c.namespace)
	if err != nil {
		return err
	}
	for _, request := range requestsFor(c.namespace, names) {
		queue.Add(request)
	}
	if c.informer == nil {
		return nil
	}
	changes := &source.Informer{Informer: c.informer, Handler: handler.EnqueueRequestsFromMapFunc(c.requestsOf)}
	return changes.Start(ctx, queue)
}

// String is how logs name the source.
func (c *connection) String() string { return "connection of " + c.namespace }

// requestsOf maps an object at the provider to the pairs that it concerns.
func (c *connection) requestsOf(_ context.Context, object client.Object) []reconcile.Request {
	return requestsFor(c.namespace, c.pairs.concerned(object.GetName()))
}
