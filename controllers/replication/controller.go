// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/commit"
	"liqo.io/federation/controllers/queue"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
)

const (
	workers = 4
	// maxOffers is how many offers of one provider are looked at.
	maxOffers = 16
	// rejectedRetry is how often a pair is tried that a cluster does not let
	// us write.
	rejectedRetry = 15 * time.Second
)

// resource is one of the kinds that are replicated.
type resource string

const (
	requests resource = "resourcerequests"
	maps     resource = "namespacemaps"
	offers   resource = "resourceoffers"
	networks resource = "networkconfigs"
)

// key names one pair of objects.
type key struct {
	foreignCluster string
	resource       resource
	name           string
}

// String is how the pair appears in logs.
func (k key) String() string { return k.foreignCluster + "/" + string(k.resource) + "/" + k.name }

// replicator keeps pairs equal.
type replicator struct {
	local      versioned.Interface
	informers  externalversions.SharedInformerFactory
	peers      *remote.Peers
	consumer   string
	controller *queue.Controller[key]
	watches    watches
}

// New makes the controller that replicates to and from every provider that
// peers is connected to. consumer is how this cluster calls itself: only
// requests and maps of that name are sent.
func New(local versioned.Interface, informers externalversions.SharedInformerFactory, peers *remote.Peers, consumer string) (interface{ Run(context.Context) }, error) {
	r := &replicator{local: local, informers: informers, peers: peers, consumer: consumer, watches: watches{connections: map[*remote.Peer]*connection{}}}
	r.controller = queue.New("replication", workers, r.reconcile)
	here := func(object metav1.Object) (string, bool) {
		return strings.CutPrefix(object.GetNamespace(), naming.PeerNamespace(""))
	}
	if err := r.watch(informers, here); err != nil {
		return nil, err
	}
	configs := informers.Federation().V1alpha1().NetworkConfigs().Informer()
	if _, err := configs.AddEventHandler(r.controller.Handle(networkKeys(here))); err != nil {
		return nil, fmt.Errorf("watch %s: %w", networks, err)
	}
	peers.Subscribe(func(ctx context.Context, foreignCluster string, peer *remote.Peer) error {
		r.watches.connected(ctx, peer)
		for _, pair := range networkPairs(foreignCluster) {
			r.controller.Add(pair)
		}
		// What is there comes by itself; what is only here was dropped as long
		// as there was no connection.
		for _, sent := range []resource{requests, maps} {
			r.controller.Add(key{foreignCluster: foreignCluster, resource: sent, name: consumer})
		}
		mirrored, err := informers.Federation().V1alpha1().ResourceOffers().Lister().ResourceOffers(naming.PeerNamespace(foreignCluster)).List(labels.Everything())
		if err != nil {
			return err
		}
		for _, offer := range mirrored {
			r.controller.Add(key{foreignCluster: foreignCluster, resource: offers, name: offer.Name})
		}
		return r.watch(peer.Informers, func(metav1.Object) (string, bool) { return foreignCluster, true })
	})
	return r.controller, nil
}

// watch adds the pairs of whatever changes on one side.
func (r *replicator) watch(factory externalversions.SharedInformerFactory, foreignCluster func(metav1.Object) (string, bool)) error {
	informers := factory.Federation().V1alpha1()
	for resource, informer := range map[resource]cache.SharedIndexInformer{
		requests: informers.ResourceRequests().Informer(),
		maps:     informers.NamespaceMaps().Informer(),
		offers:   informers.ResourceOffers().Informer(),
	} {
		handler := r.controller.Handle(func(changed any) []key {
			accessor, err := meta.Accessor(changed)
			if err != nil {
				return nil
			}
			name, ok := foreignCluster(accessor)
			if !ok || (resource != offers && accessor.GetName() != r.consumer) {
				return nil
			}
			return []key{{foreignCluster: name, resource: resource, name: accessor.GetName()}}
		})
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %s: %w", resource, err)
		}
	}
	return nil
}

func (r *replicator) reconcile(ctx context.Context, k key) (time.Duration, error) {
	peer, ok := r.peers.Get(k.foreignCluster)
	if !ok {
		// Connecting lists everything there, which brings the pairs back.
		return 0, nil
	}
	if k.resource == networks {
		after, err := r.network(ctx, k, peer)
		return r.settle(ctx, after, err)
	}
	namespace := naming.PeerNamespace(k.foreignCluster)
	informers := peer.Informers.Federation().V1alpha1()
	synced := map[resource]cache.InformerSynced{
		requests: informers.ResourceRequests().Informer().HasSynced,
		maps:     informers.NamespaceMaps().Informer().HasSynced,
		offers:   informers.ResourceOffers().Informer().HasSynced,
	}
	if !synced[k.resource]() {
		return time.Second, nil
	}
	local, there := r.informers.Federation().V1alpha1(), peer.Federation.FederationV1alpha1()
	here := r.local.FederationV1alpha1()
	var err error
	switch k.resource {
	case requests:
		err = sync(ctx, requestKind, k.name,
			newSide(local.ResourceRequests().Lister().ResourceRequests(namespace).Get, here.ResourceRequests(namespace)),
			newSide(informers.ResourceRequests().Lister().ResourceRequests(peer.Namespace).Get, there.ResourceRequests(peer.Namespace)))
	case maps:
		if r.leaving(namespace) {
			return 0, nil
		}
		err = sync(ctx, mapKind, k.name,
			newSide(local.NamespaceMaps().Lister().NamespaceMaps(namespace).Get, here.NamespaceMaps(namespace)),
			newSide(informers.NamespaceMaps().Lister().NamespaceMaps(peer.Namespace).Get, there.NamespaceMaps(peer.Namespace)))
	case offers:
		err = r.mirror(ctx, k.name, peer,
			newSide(informers.ResourceOffers().Lister().ResourceOffers(peer.Namespace).Get, there.ResourceOffers(peer.Namespace)),
			newSide(local.ResourceOffers().Lister().ResourceOffers(namespace).Get, here.ResourceOffers(namespace)))
	}
	return r.settle(ctx, 0, err)
}

// settle says when to look again.
func (r *replicator) settle(ctx context.Context, after time.Duration, err error) (time.Duration, error) {
	if remote.Rejected(err) {
		// Who we are is not accepted, or the namespace is going: what to do
		// about it is for the controller of the ForeignCluster.
		klog.FromContext(ctx).Info("Not allowed to replicate, trying again later", "reason", err.Error())
		return rejectedRetry, nil
	}
	return after, err
}

// leaving tells that the peering is over: what the provider removes of it is
// not made again.
func (r *replicator) leaving(namespace string) bool {
	request, err := r.informers.Federation().V1alpha1().ResourceRequests().Lister().ResourceRequests(namespace).Get(r.consumer)
	return err != nil || request.Spec.Withdrawn
}

// mirror copies an offer, unless a provider makes more of them than anybody
// needs.
func (r *replicator) mirror(ctx context.Context, name string, peer *remote.Peer, source, target side[*v1alpha1.ResourceOffer]) error {
	all, err := peer.Informers.Federation().V1alpha1().ResourceOffers().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	if _, err := target.get(name); apierrors.IsNotFound(err) && len(all) > maxOffers {
		return fmt.Errorf("offer %s is not looked at: the provider makes %d offers, more than %d", remote.Text(name), len(all), maxOffers)
	}
	return sync(ctx, offerKind, name, source, target)
}

// client is what generated clients have in common.
type client[T object] interface {
	commit.Patcher[T]
	Create(ctx context.Context, wanted T, options metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

func newSide[T object](get func(name string) (T, error), client client[T]) side[T] {
	return side[T]{
		get: get,
		create: func(ctx context.Context, wanted T) error {
			_, err := client.Create(ctx, wanted, metav1.CreateOptions{})
			return err
		},
		commit: func(ctx context.Context, old, wanted T) error {
			_, err := commit.Commit(ctx, client, old, wanted)
			return err
		},
		remove: func(ctx context.Context, found T) error {
			return client.Delete(ctx, found.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(found.GetUID())}})
		},
	}
}
