// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/remote"
	typed "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/generated/informers/externalversions"
	listers "liqo.io/federation/generated/listers/federation/v1alpha1"
)

// errNotConnected is returned while there is no connection to a provider. Callers need not retry: each new connection
// enqueues the claims.
var errNotConnected = errors.New("there is no connection to the cluster")

// shadow is a ShadowVolumeClaim and the name of its provider's ForeignCluster.
type shadow struct {
	cluster string
	*v1alpha1.ShadowVolumeClaim
}

// place is a remote namespace, with the name of its provider's ForeignCluster.
type place struct{ cluster, namespace string }

// Shadows reads and writes this cluster's ShadowVolumeClaims on its providers. It watches only the remote
// namespaces that are passed to Watch, because a consumer's identity may not watch other namespaces.
type Shadows struct {
	peers *remote.Peers

	mu          sync.Mutex
	connections map[string]connection
	// wanted has the remote namespaces to watch, also of providers without a connection.
	wanted    map[place]bool
	watches   map[place]*shadowWatch
	listeners []func(shadow)
}

// connection is a connection to a provider, which is closed when its context ends.
type connection struct {
	ctx  context.Context
	peer *remote.Peer
}

// shadowWatch is the cache of the ShadowVolumeClaims in one remote namespace.
type shadowWatch struct {
	peer   *remote.Peer
	lister listers.ShadowVolumeClaimNamespaceLister
	synced func() bool
	stop   context.CancelFunc
	// missed has the ShadowVolumeClaims in the caches of earlier connections. When this cache is filled, listeners are
	// notified of those that it does not have, since they were deleted meanwhile.
	missed []*v1alpha1.ShadowVolumeClaim
}

// NewShadows returns a Shadows. It must be called before the first connection to a provider.
func NewShadows(peers *remote.Peers) *Shadows {
	s := &Shadows{
		peers: peers, connections: map[string]connection{}, wanted: map[place]bool{}, watches: map[place]*shadowWatch{},
	}
	peers.Subscribe(s.connected)
	return s
}

// connected starts the watches of a provider over a new connection, and stops those over the earlier connection.
func (s *Shadows) connected(ctx context.Context, cluster string, peer *remote.Peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections[cluster] = connection{ctx, peer}
	for at := range s.wanted {
		if at.cluster != cluster {
			continue
		}
		if err := s.begin(at); err != nil {
			return err
		}
	}
	return nil
}

// Watch starts the watch of a remote namespace, at once if its provider is connected, and with each new connection. It
// fails if the watch cannot be started.
func (s *Shadows) Watch(at place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[at] = true
	connection, ok := s.connections[at.cluster]
	if !ok || connection.ctx.Err() != nil {
		return nil
	}
	if watch, ok := s.watches[at]; ok && watch.peer == connection.peer {
		return nil
	}
	return s.begin(at)
}

// Keep stops the watches of those remote namespaces of a provider whose names are not in namespaces.
func (s *Shadows) Keep(cluster string, namespaces map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.wanted {
		if at.cluster != cluster || namespaces[at.namespace] {
			continue
		}
		if watch := s.watches[at]; watch != nil {
			watch.stop()
		}
		delete(s.wanted, at)
		delete(s.watches, at)
	}
}

// begin starts the watch of a remote namespace and stops an earlier one. The provider must be connected.
func (s *Shadows) begin(at place) error {
	connection := s.connections[at.cluster]
	var missed []*v1alpha1.ShadowVolumeClaim
	if old := s.watches[at]; old != nil {
		old.stop()
		// Listing from a cache fails only with an invalid selector.
		missed, _ = old.lister.List(labels.Everything())
		missed = append(missed, old.missed...)
	}
	ctx, stop := context.WithCancel(connection.ctx)
	factory := externalversions.NewSharedInformerFactoryWithOptions(connection.peer.Federation, 0,
		externalversions.WithNamespace(at.namespace), externalversions.WithTransform(trimAnswer))
	claims := factory.Federation().V1alpha1().ShadowVolumeClaims()
	notify := func(object any) {
		if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = deleted.Obj
		}
		if claim, ok := object.(*v1alpha1.ShadowVolumeClaim); ok {
			s.notify(shadow{at.cluster, claim})
		}
	}
	registration, err := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, current any) { notify(current) }, DeleteFunc: notify,
	})
	if err != nil {
		stop()
		return fmt.Errorf("watching the ShadowVolumeClaims in namespace %s of %s: %w", at.namespace, at.cluster, err)
	}
	factory.StartWithContext(ctx)
	watch := &shadowWatch{
		peer: connection.peer, lister: claims.Lister().ShadowVolumeClaims(at.namespace),
		synced: registration.HasSynced, stop: stop, missed: missed,
	}
	s.watches[at] = watch
	if len(missed) > 0 {
		go s.notifyMissed(ctx, at, watch)
	}
	return nil
}

// notifyMissed notifies the listeners of ShadowVolumeClaims that were deleted between two connections, for which the
// new watch has no event.
func (s *Shadows) notifyMissed(ctx context.Context, at place, watch *shadowWatch) {
	if !cache.WaitForCacheSync(ctx.Done(), watch.synced) {
		return
	}
	s.mu.Lock()
	missed := watch.missed
	watch.missed = nil
	s.mu.Unlock()
	for _, claim := range missed {
		if _, err := watch.lister.Get(claim.Name); err != nil {
			s.notify(shadow{at.cluster, claim})
		}
	}
}

func (s *Shadows) notify(claim shadow) {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	for _, listener := range listeners {
		listener(claim)
	}
}

// source returns a source of reconcile requests for every ShadowVolumeClaim that is cached or changes.
func (s *Shadows) source(requests func(context.Context, shadow) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		listener := func(claim shadow) {
			for _, request := range requests(ctx, claim) {
				queue.Add(request)
			}
		}
		s.mu.Lock()
		s.listeners = append(s.listeners[:len(s.listeners):len(s.listeners)], listener)
		s.mu.Unlock()
		for _, claim := range s.all(func(*v1alpha1.ShadowVolumeClaim) bool { return true }) {
			listener(claim)
		}
		return nil
	})
}

// cached returns a ShadowVolumeClaim from the cache, or nil. It also reports whether the cache is filled.
func (s *Shadows) cached(at place, name string) (*v1alpha1.ShadowVolumeClaim, bool) {
	s.mu.Lock()
	watch := s.watches[at]
	s.mu.Unlock()
	if watch == nil || !watch.synced() {
		return nil, false
	}
	claim, err := watch.lister.Get(name)
	if err != nil {
		// Reading from a cache fails only with NotFound.
		return nil, true
	}
	return claim, true
}

// all returns those cached ShadowVolumeClaims for which keep returns true, from all providers.
func (s *Shadows) all(keep func(*v1alpha1.ShadowVolumeClaim) bool) []shadow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []shadow
	for at, watch := range s.watches {
		// Listing from a cache fails only with an invalid selector.
		claims, _ := watch.lister.List(labels.Everything())
		for _, claim := range claims {
			if keep(claim) {
				found = append(found, shadow{at.cluster, claim})
			}
		}
	}
	return found
}

// client returns the client of a remote namespace. It fails with errNotConnected without a connection to the provider.
func (s *Shadows) client(at place) (typed.ShadowVolumeClaimInterface, error) {
	peer, ok := s.peers.Get(at.cluster)
	if !ok {
		return nil, errNotConnected
	}
	return peer.Federation.FederationV1alpha1().ShadowVolumeClaims(at.namespace), nil
}

// create creates a ShadowVolumeClaim, or reads the existing one of this name. The result always has the requested
// namespace and name, because the provider may return others.
func (s *Shadows) create(
	ctx context.Context, at place, claim *v1alpha1.ShadowVolumeClaim,
) (*v1alpha1.ShadowVolumeClaim, error) {
	client, err := s.client(at)
	if err != nil {
		return nil, err
	}
	created, err := client.Create(ctx, claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = client.Get(ctx, claim.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	accepted := answered(created)
	accepted.Namespace, accepted.Name = at.namespace, claim.Name
	return accepted, nil
}

// change reads a ShadowVolumeClaim from the provider, calls a function that changes its spec, and updates it. It
// returns the object as it was read. It fails with NotFound if the object does not exist.
func (s *Shadows) change(
	ctx context.Context, at place, name string, change func(*v1alpha1.ShadowVolumeClaimSpec),
) (*v1alpha1.ShadowVolumeClaim, error) {
	client, err := s.client(at)
	if err != nil {
		return nil, err
	}
	current, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	wanted := current.DeepCopy()
	change(&wanted.Spec)
	_, err = commit.Commit(ctx, client, current, wanted)
	return current, err
}

// remove sets the policy for the data of a ShadowVolumeClaim and deletes it. It reports whether the object no longer
// exists; otherwise the event of its deletion enqueues the volume or claim again.
func (s *Shadows) remove(
	ctx context.Context, at place, name string, policy v1alpha1.VolumeDeletionPolicy,
) (bool, error) {
	current, err := s.change(ctx, at, name, func(spec *v1alpha1.ShadowVolumeClaimSpec) { spec.DeletionPolicy = policy })
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !current.DeletionTimestamp.IsZero() {
		return false, nil
	}
	client, err := s.client(at)
	if err != nil {
		return false, err
	}
	err = client.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(current.UID)))
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	_, err = client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
