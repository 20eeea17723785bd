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
	// Clients talk to the provider as its tenant.
	*Clients
	// Namespace is the tenant namespace there.
	Namespace string
	// Informers watch that namespace and nothing else.
	Informers externalversions.SharedInformerFactory

	identity *Identity
	stop     context.CancelFunc
}

// Subscriber is told of each new connection before its informers start, to
// ask them for what it needs.
type Subscriber func(ctx context.Context, foreignCluster string, peer *Peer) error

// Peers keeps one connection for each provider, and makes it anew when the
// identity there changes.
type Peers struct {
	mu          sync.Mutex
	subscribers []Subscriber
	peers       map[string]*Peer
	connect     func(*Identity) (*Clients, error)
}

// NewPeers keeps connections that use the network. The file holds this process's
// token for the proxy of the gateway, where providers are reached by the tunnel.
func NewPeers(proxyTokenFile string) *Peers {
	return NewPeersWith(func(identity *Identity) (*Clients, error) {
		with := *identity
		with.ProxyTokenFile = proxyTokenFile
		return connect(&with)
	})
}

// NewPeersWith keeps connections that are made by a function, for tests.
func NewPeersWith(connect func(*Identity) (*Clients, error)) *Peers {
	return &Peers{peers: map[string]*Peer{}, connect: connect}
}

func connect(identity *Identity) (*Clients, error) {
	config, err := Config(identity)
	if err != nil {
		return nil, err
	}
	return NewClients(config)
}

// Subscribe adds one that is told of new connections. It is called before the
// first one is made.
func (p *Peers) Subscribe(subscriber Subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribers = append(p.subscribers, subscriber)
}

// Set connects to a foreign cluster with an identity, until the context ends
// or Remove is called. The same identity again changes nothing; another one
// replaces the connection.
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

// Connect makes clients that use an identity, or the token of an invitation,
// and keeps nothing.
func (p *Peers) Connect(identity *Identity) (*Clients, error) { return p.connect(identity) }

// Get gives the connection to a foreign cluster, if there is one.
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

// Trim drops from an object what no controller reads, before it is cached.
func Trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
