// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication replicates the objects by which two clusters negotiate. It runs on the consumer
// only. It copies the consumer's ResourceRequest and NamespaceMap to the tenant namespace on the provider,
// and the provider's ResourceOffers to the peer namespace: the spec from the cluster that writes it, and
// the status back. NetworkConfigs are copied in both directions while the consumer has one.
package replication

import (
	"context"
	"errors"
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
	// rejectedRetry is the time after which an object is reconciled again if the provider answered a
	// request with Unauthorized or Forbidden.
	rejectedRetry = 15 * time.Second
	// syncRetry is the time after which an object is reconciled again if its kind is not cached yet.
	syncRetry = time.Second
)

// Replicator replicates objects to and from each provider to which a connection is open.
type Replicator struct {
	// Client reads the cache of the manager.
	Client client.Client
	// Peers holds the connections of this cluster to its providers.
	Peers *remote.Peers
	// ClusterName is the name of this cluster. Only ResourceRequests and NamespaceMaps with this name are
	// replicated.
	ClusterName string

	// pace limits the local writes that providers cause.
	pace pace
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

// pairs copies the objects of one kind between the clusters. A pair is a local object and the remote object with the
// same name.
type pairs interface {
	// title names the kind in errors.
	title() string
	// object returns an object of the kind without content.
	object() client.Object
	// concerned returns the names of the local objects to reconcile, each with the remote object of the same name,
	// after the local or the remote object with this name changed.
	concerned(object string) []string
	// local returns the names of the local objects in a peer namespace to reconcile when a connection is opened. Those
	// without a remote object are not enqueued by the watch of remote objects.
	local(ctx context.Context, namespace string) ([]string, error)
	// connected is called when a connection to a provider is opened. The connection is closed when ctx is done. It
	// returns the informer of the remote objects; nil if they are not watched from the start.
	connected(ctx context.Context, peer *remote.Peer) cache.SharedIndexInformer
	// replicate copies spec and status between the objects of a pair. key names the local object. If the pair cannot be
	// read yet, it returns the time after which to call it again, otherwise zero.
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
		WithOptions(kit.Options(kit.PeerWorkers)).
		Build(r)
	if err != nil {
		return err
	}
	r.follow(controller)
	return nil
}

// follow adds a source with the remote objects for each connection that is opened from now on.
func (r *reconciler) follow(watcher watcher) {
	r.watcher = watcher
	r.peers.Subscribe(r.connect)
}

// requestsOf returns the requests of the pairs to reconcile after a local object changed.
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

// connect adds the source for a connection to a provider, which is closed when ctx is done.
func (r *reconciler) connect(ctx context.Context, foreignCluster string, peer *remote.Peer) error {
	informer := r.pairs.connected(ctx, peer)
	return r.watcher.Watch(&connection{
		ended: ctx.Done(), namespace: naming.PeerNamespace(foreignCluster), pairs: r.pairs, informer: informer,
	})
}

// Reconcile replicates one pair. Without a connection to the provider, it does nothing.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	peer, ok := r.peers.Get(naming.ForeignClusterOf(request.Namespace))
	if !ok {
		// The pair is enqueued again when a connection is opened.
		return ctrl.Result{}, nil
	}
	after, err := r.pairs.replicate(ctx, request.NamespacedName, peer, r.watcher)
	if errors.Is(err, errTooOften) {
		return ctrl.Result{RequeueAfter: writeInterval}, nil
	}
	if remote.Rejected(err) {
		// The provider does not accept the identity, or its tenant namespace is being deleted. The
		// condition of the ForeignCluster reports that.
		klog.FromContext(ctx).Info("Replication is not permitted, retrying later", "reason", err.Error())
		return ctrl.Result{RequeueAfter: rejectedRetry}, nil
	}
	return kit.Result(after, err)
}

// connection is the source of requests for one connection to a provider. It enqueues the pairs that pairs.local returns
// when the connection is opened, and each pair whose remote object changes.
type connection struct {
	ended     <-chan struct{}
	namespace string
	pairs     pairs
	informer  cache.SharedIndexInformer
}

// Start implements source.Source. It does nothing if the connection was closed before the controller
// started.
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

// String returns the name of the source in logs.
func (c *connection) String() string { return "connection of " + c.namespace }

// requestsOf returns the requests of the pairs to reconcile after a remote object changed.
func (c *connection) requestsOf(_ context.Context, object client.Object) []reconcile.Request {
	return requestsFor(c.namespace, c.pairs.concerned(object.GetName()))
}
