// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	"liqo.io/federation/generated/informers/externalversions"
)

// Peer is the connection to one provider.
type Peer struct {
	*Clients
	// Namespace is the tenant namespace on the provider.
	Namespace string
	// Informers watch the tenant namespace.
	Informers externalversions.SharedInformerFactory

	identity *Identity
	stop     context.CancelFunc
}

// Subscriber is called with each new connection before its informers start, so that it can request informers and add
// handlers. If it fails, the connection is not established. The context ends with the connection.
type Subscriber func(ctx context.Context, foreignCluster string, peer *Peer) error

// Peers holds one connection per provider, and replaces it when the identity changes.
type Peers struct {
	mu          sync.Mutex
	subscribers []Subscriber
	peers       map[string]*Peer
	connect     func(*Identity) (*Clients, error)
}

// NewPeers returns an empty Peers. The file contains this process's token for the proxy of the local gateway, which
// connects to providers through the tunnel.
func NewPeers(proxyTokenFile string) *Peers {
	var calls callsOfServers
	return NewPeersWith(func(identity *Identity) (*Clients, error) {
		withToken := *identity
		withToken.ProxyTokenFile = proxyTokenFile
		config, err := Config(&withToken, Options{Calls: calls.of(identity.Server)})
		if err != nil {
			return nil, err
		}
		return NewClients(config)
	})
}

// callsOfServers has one limit for all connections to the same server: those of Set, of which an identity's renewal
// makes a new one, and those of Connect. It keeps the limits of servers that are not used any more, which are small.
type callsOfServers struct {
	mu    sync.Mutex
	calls map[string]*Calls
}

func (c *callsOfServers) of(server string) *Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls[server]
	if calls == nil {
		calls = NewCalls(SharedLimits.Calls)
		if c.calls == nil {
			c.calls = map[string]*Calls{}
		}
		c.calls[server] = calls
	}
	return calls
}

// NewPeersWith returns an empty Peers that creates clients with a function, for tests.
func NewPeersWith(connect func(*Identity) (*Clients, error)) *Peers {
	return &Peers{peers: map[string]*Peer{}, connect: connect}
}

// Subscribe adds a subscriber. It must be called before Set.
func (p *Peers) Subscribe(subscriber Subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribers = append(p.subscribers, subscriber)
}

// Set connects to a foreign cluster with an identity, until the context ends or Remove is called. It does nothing if
// the identity is unchanged, and replaces the connection otherwise. It fails if the identity is invalid or a
// subscriber fails.
func (p *Peers) Set(ctx context.Context, foreignCluster string, identity *Identity) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.peers[foreignCluster]
	if old != nil && old.identity.Equal(identity) {
		return nil
	}
	clients, err := p.connect(identity)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	peer := &Peer{
		Clients:   clients,
		Namespace: identity.Namespace,
		Informers: externalversions.NewSharedInformerFactoryWithOptions(clients.Federation, 0,
			externalversions.WithNamespace(identity.Namespace), externalversions.WithTransform(Trim)),
		identity: identity,
		stop:     stop,
	}
	for _, subscribe := range p.subscribers {
		if err := subscribe(ctx, foreignCluster, peer); err != nil {
			stop()
			return err
		}
	}
	if old != nil {
		old.stop()
	}
	p.peers[foreignCluster] = peer
	peer.Informers.StartWithContext(ctx)
	klog.FromContext(ctx).Info("Connected to a provider", "foreignCluster", foreignCluster, "server", identity.Server)
	return nil
}

// Connect returns clients that authenticate with an identity or with the token of an invitation. Get does not return
// them, and Remove does not close them. It fails if the identity is invalid.
func (p *Peers) Connect(identity *Identity) (*Clients, error) { return p.connect(identity) }

// Get returns the connection to a foreign cluster, and reports whether there is one.
func (p *Peers) Get(foreignCluster string) (*Peer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer, ok := p.peers[foreignCluster]
	return peer, ok
}

// Remove ends the connection to a foreign cluster.
func (p *Peers) Remove(foreignCluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer, ok := p.peers[foreignCluster]; ok {
		peer.stop()
		delete(p.peers, foreignCluster)
	}
}

// Trim removes the managed fields of an object before it is cached. It implements cache.TransformFunc.
func Trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
