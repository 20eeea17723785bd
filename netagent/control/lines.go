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
	// maxOfPeer and maxOfAll bound the connections that are carried at a time.
	maxOfPeer = 1024
	maxOfAll  = 4096
	// perSecond and atOnce bound how fast a peer makes new ones.
	perSecond = 20
	atOnce    = 200
	// maxAsking bounds those who are connected with the proxy, whoever they are.
	maxAsking = maxOfAll + 1024
	// dialPatience bounds how long an end may take to be reached.
	dialPatience = 10 * time.Second
	// readPatience bounds how long somebody may go on asking. It is longer than
	// what it takes to know who he is, and to reach the other end: until then a
	// request is still being read.
	readPatience = time.Minute
)

var (
	errUnknown = errors.New("the control plane of this peer does not go through the tunnel")
	errTooMany = errors.New("too many connections are carried already")
	errTooFast = errors.New("it makes new connections too fast")
)

// lines are the connections that are carried, by the control address of the
// peer.
type lines struct {
	ofPeer, ofAll int

	mu    sync.Mutex
	known map[netip.Addr]*line
	count int
}

// line are the connections of one peer.
type line struct {
	conns map[net.Conn]bool
	pace  *rate.Limiter
}

// allow says which peers there are. The connections of others end.
func (l *lines) allow(peers []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.known
	l.known = make(map[netip.Addr]*line, len(peers))
	for _, p := range peers {
		if l.known[p] = before[p]; l.known[p] == nil {
			l.known[p] = &line{conns: make(map[net.Conn]bool), pace: rate.NewLimiter(perSecond, atOnce)}
		}
		delete(before, p)
	}
	for _, gone := range before {
		for c := range gone.conns {
			c.Close()
		}
	}
}

// enter notes a connection of a peer until it leaves; an error tells why it is
// not carried.
func (l *lines) enter(peer netip.Addr, c net.Conn) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.known[peer]
	switch {
	case of == nil:
		return nil, errUnknown
	case len(of.conns) >= l.ofPeer || l.count >= l.ofAll:
		return nil, errTooMany
	case !of.pace.Allow():
		return nil, errTooFast
	}
	of.conns[c] = true
	l.count++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(of.conns, c)
		l.count--
	}, nil
}
