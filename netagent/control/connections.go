// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxPerPeer and maxTotal bound the concurrent connections.
	maxPerPeer = 1024
	maxTotal   = 4096
	// newPerSecond and newBurst bound the rate of new connections per peer.
	newPerSecond = 20
	newBurst     = 200
	// maxClients bounds the concurrent connections of clients to the proxy.
	maxClients = maxTotal + 1024
	// dialTimeout bounds connecting to the destination.
	dialTimeout = 10 * time.Second
	// readTimeout bounds reading a request. The request counts as being read until its connection is hijacked, so
	// that the timeout includes authorizing the client and connecting to the destination.
	readTimeout = time.Minute
)

var (
	errUnknown = errors.New("the tunnel to this peer carries no control plane traffic")
	errTooMany = errors.New("too many concurrent connections")
	errTooFast = errors.New("too many new connections")
)

// connections are the connections being forwarded, by the control address of the peer.
type connections struct {
	maxPerPeer, maxTotal int

	mu    sync.Mutex
	peers map[netip.Addr]*peerConnections
	count int
}

// peerConnections are the forwarded connections of one peer.
type peerConnections struct {
	conns   map[net.Conn]bool
	limiter *rate.Limiter
}

// allow sets the peers whose connections are accepted, and closes the connections of all other peers.
func (l *connections) allow(peers []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.peers
	l.peers = make(map[netip.Addr]*peerConnections, len(peers))
	for _, p := range peers {
		if l.peers[p] = before[p]; l.peers[p] == nil {
			l.peers[p] = &peerConnections{conns: make(map[net.Conn]bool), limiter: rate.NewLimiter(newPerSecond, newBurst)}
		}
		delete(before, p)
	}
	for _, gone := range before {
		for c := range gone.conns {
			c.Close()
		}
	}
}

// add records a connection of a peer until the caller calls remove. It fails with errUnknown if the peer is not
// allowed, with errTooMany if the number of connections exceeds maxPerPeer or maxTotal, and with errTooFast if their
// rate exceeds newPerSecond and newBurst.
func (l *connections) add(peer netip.Addr, c net.Conn) (remove func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peerConns := l.peers[peer]
	switch {
	case peerConns == nil:
		return nil, errUnknown
	case len(peerConns.conns) >= l.maxPerPeer || l.count >= l.maxTotal:
		return nil, errTooMany
	case !peerConns.limiter.Allow():
		return nil, errTooFast
	}
	peerConns.conns[c] = true
	l.count++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(peerConns.conns, c)
		l.count--
	}, nil
}
