// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/remote"
	typed "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
)

// networkPairs replicates the NetworkConfigs of both clusters, in both directions, while this cluster has
// a NetworkConfig for the provider. The kind is watched only at such providers, because older providers
// do not serve it and others do not need it.
type networkPairs struct {
	*Replicator

	mu          sync.Mutex
	connections map[*remote.Peer]*networkConnection
}

// networkConnection is the state of the replication of NetworkConfigs over one connection to a provider.
type networkConnection struct {
	// ctx is done when the connection is closed.
	ctx context.Context
	// watching is true once the provider's NetworkConfigs are watched.
	watching bool
	// clean is true once the provider has no copy of the consumer's NetworkConfig from an earlier connection, or does
	// not permit its deletion.
	clean bool
}

func newNetworkPairs(r *Replicator) *networkPairs {
	return &networkPairs{Replicator: r, connections: map[*remote.Peer]*networkConnection{}}
}

func (*networkPairs) title() string                  { return "network configuration" }
func (*networkPairs) object() client.Object          { return &v1alpha1.NetworkConfig{} }
func (*networkPairs) empty() *v1alpha1.NetworkConfig { return &v1alpha1.NetworkConfig{} }

// concerned returns the names of both NetworkConfigs, whichever changed, so that both are reconciled: the provider's
// NetworkConfig is replicated only while the consumer has one.
func (*networkPairs) concerned(string) []string {
	return []string{v1alpha1.NetworkConfigOfConsumer, v1alpha1.NetworkConfigOfProvider}
}

func (n *networkPairs) local(context.Context, string) ([]string, error) { return n.concerned(""), nil }

// connected records a connection until ctx is done. It returns no informer, because watch creates it.
func (n *networkPairs) connected(ctx context.Context, peer *remote.Peer) cache.SharedIndexInformer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connections[peer] = &networkConnection{ctx: ctx}
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.connections, peer)
	})
	return nil
}

// state reports whether the provider's NetworkConfigs are watched, and whether the provider may have a copy of the
// consumer's NetworkConfig from an earlier connection.
func (n *networkPairs) state(peer *remote.Peer) (watching, unclean bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.connections[peer]
	return c != nil && c.watching, c != nil && !c.clean
}

func (n *networkPairs) cleaned(peer *remote.Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.connections[peer]; c != nil {
		c.clean = true
	}
}

// watch starts the watch of the provider's NetworkConfigs, once per connection, and reports whether they
// are cached.
func (n *networkPairs) watch(namespace string, peer *remote.Peer, watcher watcher) (synced bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.connections[peer]
	if c == nil {
		return false, nil
	}
	informer := peer.Informers.Federation().V1alpha1().NetworkConfigs().Informer()
	if !c.watching {
		changes := &connection{ended: c.ctx.Done(), namespace: namespace, pairs: n, informer: informer}
		if err := watcher.Watch(changes); err != nil {
			return false, err
		}
		c.watching = true
		peer.Informers.StartWithContext(c.ctx)
	}
	return informer.HasSynced(), nil
}

func (n *networkPairs) replicate(
	ctx context.Context, key types.NamespacedName, peer *remote.Peer, watcher watcher,
) (time.Duration, error) {
	local := localSideOf(n.Replicator, key, n.empty())
	own, err := local.get(ctx, v1alpha1.NetworkConfigOfConsumer)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	wanted := err == nil && own.DeletionTimestamp == nil
	if !wanted && key.Name == v1alpha1.NetworkConfigOfProvider {
		return 0, replicatePair(ctx, n, key.Name, emptySide[*v1alpha1.NetworkConfig]{}, local)
	}
	writer := peer.Federation.FederationV1alpha1().NetworkConfigs(peer.Namespace)
	if watching, unclean := n.state(peer); !wanted && !watching {
		if !unclean {
			return 0, nil
		}
		return 0, n.cleanUp(ctx, key.Namespace, peer, writer)
	}
	if synced, err := n.watch(key.Namespace, peer, watcher); !synced || err != nil {
		return syncRetry, err
	}
	configs := peer.Informers.Federation().V1alpha1().NetworkConfigs()
	remote := remoteSide[*v1alpha1.NetworkConfig]{
		lister: configs.Lister().NetworkConfigs(peer.Namespace), writer: writer,
	}
	if key.Name == v1alpha1.NetworkConfigOfProvider {
		return 0, replicatePair(ctx, n, key.Name, remote, local)
	}
	if wanted {
		if leaving, err := n.leaving(ctx, key.Namespace); leaving || err != nil {
			return 0, err
		}
	}
	return 0, replicatePair(ctx, n, key.Name, local, remote)
}

// cleanUp deletes the copy of the consumer's NetworkConfig on a provider. A copy may remain if an earlier
// process ended after the deletion of the local NetworkConfig, and before the deletion of the copy. The copy is read
// from the provider's API server, because it is not watched.
func (n *networkPairs) cleanUp(
	ctx context.Context, namespace string, peer *remote.Peer, configs typed.NetworkConfigInterface,
) error {
	request, err := n.request(ctx, namespace)
	if err != nil || request == nil || !slices.Contains(request.Status.Features, compatibility.FeatureTunnel) {
		return err
	}
	left, err := configs.Get(ctx, v1alpha1.NetworkConfigOfConsumer, metav1.GetOptions{})
	if err == nil {
		err = remoteSide[*v1alpha1.NetworkConfig]{writer: configs}.remove(ctx, left)
	}
	if err == nil || apierrors.IsNotFound(err) || remote.Rejected(err) {
		n.cleaned(peer)
		return nil
	}
	return fmt.Errorf("deleting the copy of %s %s: %w", n.title(), v1alpha1.NetworkConfigOfConsumer, err)
}

func (*networkPairs) parts(c *v1alpha1.NetworkConfig) (*v1alpha1.NetworkConfigSpec, *v1alpha1.NetworkConfigStatus) {
	return &c.Spec, &c.Status
}

func (*networkPairs) observed(s *v1alpha1.NetworkConfigStatus) *int64 { return &s.ObservedGeneration }

func (*networkPairs) conditions(s *v1alpha1.NetworkConfigStatus) []metav1.Condition {
	return s.Conditions
}

func (*networkPairs) validate(spec *v1alpha1.NetworkConfigSpec) error { return boundedSpec(spec) }

func (*networkPairs) complete(spec *v1alpha1.NetworkConfigSpec) {
	v1alpha1.SetDefaults_NetworkConfigSpec(spec)
}

func (*networkPairs) clean(s *v1alpha1.NetworkConfigStatus) {
	s.Conditions = cleanConditions(s.Conditions)
	s.ObservedGeneration = max(s.ObservedGeneration, 0)
	// If one mapping is invalid, all are dropped, because the others may be invalid without it.
	if len(validation.ValidateCIDRMappings(mappingsOf(s.CIDRs))) > 0 {
		s.CIDRs = nil
	}
}

func mappingsOf(list []v1alpha1.CIDRMapping) []federation.CIDRMapping {
	mappings := make([]federation.CIDRMapping, 0, len(list))
	for _, mapping := range list {
		mappings = append(mappings, federation.CIDRMapping{CIDR: mapping.CIDR, Mapped: mapping.Mapped})
	}
	return mappings
}
