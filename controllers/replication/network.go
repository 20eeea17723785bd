// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"slices"
	gosync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
)

var networkKind = &kind[*v1alpha1.NetworkConfig, v1alpha1.NetworkConfigSpec, v1alpha1.NetworkConfigStatus]{
	name: "network configuration",
	empty: func(name string) *v1alpha1.NetworkConfig {
		return &v1alpha1.NetworkConfig{ObjectMeta: newMeta(name)}
	},
	parts: func(c *v1alpha1.NetworkConfig) (*v1alpha1.NetworkConfigSpec, *v1alpha1.NetworkConfigStatus) {
		return &c.Spec, &c.Status
	},
	observed:   func(s *v1alpha1.NetworkConfigStatus) *int64 { return &s.ObservedGeneration },
	conditions: func(s *v1alpha1.NetworkConfigStatus) []metav1.Condition { return s.Conditions },
	checkSpec:  boundedSpec[v1alpha1.NetworkConfigSpec],
	complete:   v1alpha1.SetDefaults_NetworkConfigSpec,
	cleanStatus: func(s *v1alpha1.NetworkConfigStatus) {
		s.Conditions = cleanConditions(s.Conditions)
		s.ObservedGeneration = max(s.ObservedGeneration, 0)
		// A part of an answer is none.
		if len(validation.ValidateCIDRMappings(mappingsOf(s.CIDRs))) > 0 {
			s.CIDRs = nil
		}
	},
}

func mappingsOf(list []v1alpha1.CIDRMapping) []federation.CIDRMapping {
	mappings := make([]federation.CIDRMapping, 0, len(list))
	for _, mapping := range list {
		mappings = append(mappings, federation.CIDRMapping{CIDR: mapping.CIDR, Mapped: mapping.Mapped})
	}
	return mappings
}

// watches tells which connections watch the network configurations there. Only
// those do that have something to say about a tunnel: older providers know no
// such kind, and most others have no need of it.
type watches struct {
	mutex       gosync.Mutex
	connections map[*remote.Peer]*connection
}

// connection is one that was made to a provider.
type connection struct {
	ctx      context.Context
	watching bool
	// clean tells that no copy of ours is left there.
	clean bool
}

// connected notes a connection until its context ends.
func (w *watches) connected(ctx context.Context, peer *remote.Peer) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.connections[peer] = &connection{ctx: ctx}
	context.AfterFunc(ctx, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		delete(w.connections, peer)
	})
}

// start begins to watch what is there, once for each connection; it tells
// whether that is known.
func (w *watches) start(peer *remote.Peer, watch func() error) (known bool, err error) {
	informer := peer.Informers.Federation().V1alpha1().NetworkConfigs().Informer()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	c := w.connections[peer]
	if c == nil {
		return false, nil
	}
	if !c.watching {
		if err := watch(); err != nil {
			return false, err
		}
		c.watching = true
		peer.Informers.StartWithContext(c.ctx)
	}
	return informer.HasSynced(), nil
}

// once tells whether what is left there has to be looked for.
func (w *watches) once(peer *remote.Peer) (watching, look bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	c := w.connections[peer]
	return c != nil && c.watching, c != nil && !c.clean
}

func (w *watches) cleaned(peer *remote.Peer) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c := w.connections[peer]; c != nil {
		c.clean = true
	}
}

// network replicates the network configurations of both sides as long as this
// cluster has one of its own for the provider.
func (r *replicator) network(ctx context.Context, k key, peer *remote.Peer) (time.Duration, error) {
	namespace := naming.PeerNamespace(k.foreignCluster)
	lister := r.informers.Federation().V1alpha1().NetworkConfigs().Lister().NetworkConfigs(namespace)
	own, err := lister.Get(v1alpha1.NetworkConfigOfConsumer)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	wanted := err == nil && own.DeletionTimestamp == nil
	here := newSide(lister.Get, r.local.FederationV1alpha1().NetworkConfigs(namespace))
	if !wanted && k.name == v1alpha1.NetworkConfigOfProvider {
		return 0, sync(ctx, networkKind, k.name, nothing(here), here)
	}
	client := peer.Federation.FederationV1alpha1().NetworkConfigs(peer.Namespace)
	if watching, look := r.watches.once(peer); !wanted && !watching {
		if !look || !r.speaksOfTunnels(namespace) {
			return 0, nil
		}
		// As when this process ended between the removal of both.
		err := client.Delete(ctx, v1alpha1.NetworkConfigOfConsumer, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) || remote.Rejected(err) {
			r.watches.cleaned(peer)
			return 0, nil
		}
		return 0, fmt.Errorf("remove the copy of %s %s: %w", networkKind.name, k.name, err)
	}
	known, err := r.watches.start(peer, func() error { return r.watchNetwork(peer, k.foreignCluster) })
	if err != nil {
		return 0, err
	}
	if !known {
		return time.Second, nil
	}
	there := newSide(peer.Informers.Federation().V1alpha1().NetworkConfigs().Lister().NetworkConfigs(peer.Namespace).Get, client)
	switch {
	case k.name == v1alpha1.NetworkConfigOfProvider:
		return 0, sync(ctx, networkKind, k.name, there, here)
	case wanted && r.leaving(namespace):
		return 0, nil
	default:
		return 0, sync(ctx, networkKind, k.name, here, there)
	}
}

// watchNetwork adds the pairs of what changes on a provider.
func (r *replicator) watchNetwork(peer *remote.Peer, foreignCluster string) error {
	handler := r.controller.Handle(networkKeys(func(metav1.Object) (string, bool) { return foreignCluster, true }))
	if _, err := peer.Informers.Federation().V1alpha1().NetworkConfigs().Informer().AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch %s: %w", networks, err)
	}
	return nil
}

// networkKeys are the pairs that a network configuration leads to. Whether
// there is one of ours decides about that of the provider, too.
func networkKeys(foreignCluster func(metav1.Object) (string, bool)) func(any) []key {
	return func(changed any) []key {
		config, ok := changed.(*v1alpha1.NetworkConfig)
		if !ok {
			return nil
		}
		name, ok := foreignCluster(config)
		if !ok {
			return nil
		}
		return networkPairs(name)
	}
}

func networkPairs(foreignCluster string) []key {
	return []key{
		{foreignCluster: foreignCluster, resource: networks, name: v1alpha1.NetworkConfigOfConsumer},
		{foreignCluster: foreignCluster, resource: networks, name: v1alpha1.NetworkConfigOfProvider},
	}
}

// speaksOfTunnels tells whether the provider knows network configurations.
func (r *replicator) speaksOfTunnels(namespace string) bool {
	request, err := r.informers.Federation().V1alpha1().ResourceRequests().Lister().ResourceRequests(namespace).Get(r.consumer)
	return err == nil && slices.Contains(request.Status.Features, compatibility.FeatureTunnel)
}

// nothing is a side that holds no object.
func nothing[T object](like side[T]) side[T] {
	like.get = func(name string) (T, error) {
		var none T
		return none, apierrors.NewNotFound(v1alpha1.Resource(string(networks)), name)
	}
	return like
}
