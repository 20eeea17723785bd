// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// endpointPatience is how long a peer has to be heard from at one of its
	// endpoints, before the next one is called.
	endpointPatience = 10 * time.Second
	// resolvePatience bounds the questions where the names of a peer lead, and
	// resolveAgain is when they are asked anew that led nowhere.
	resolvePatience = 3 * time.Second
	resolveAgain    = 5 * time.Second
	// maxEndpoints bounds how many endpoints of a peer are looked at.
	maxEndpoints = 8
)

// Endpoints choose where peers are called: where they were heard from last, if
// that is known, else at the first endpoint, and while nothing is heard from
// there at the next one, round and round.
type Endpoints struct {
	// Lookup resolves a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Clock  clock.Clock

	mu    sync.Mutex
	peers map[string]*called
}

// called is a peer, and where it is called.
type called struct {
	uid       types.UID // of its TunnelEndpoint: another one of the name begins anew
	endpoints []string
	at        int
	since     time.Time
	address   netip.AddrPort
	heard     bool // there, and not only called
}

// NewEndpoints resolves names as the node does.
func NewEndpoints() *Endpoints {
	return &Endpoints{
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		Clock: clock.RealClock{},
	}
}

// Of tells where a peer is called, and whether because it was heard from there; an
// invalid address if nowhere, since it calls us or its names are not resolved.
// Nobody has to follow it for what needs no name to be resolved.
func (e *Endpoints) Of(te *v1alpha1.TunnelEndpoint) (at netip.AddrPort, heard bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.peers[te.Name]; c.is(te) {
		return c.address, c.heard
	}
	c := newCalled(te, e.Clock.Now())
	return c.address, c.heard
}

// newCalled is a peer that nobody has followed so far: it is called where it was
// heard last, or at its first endpoint if that is an address.
func newCalled(te *v1alpha1.TunnelEndpoint, now time.Time) *called {
	c := &called{uid: te.UID, endpoints: slices.Clone(te.Spec.Endpoints), at: -1, address: heardAt(te)}
	c.heard = c.address.IsValid()
	if !c.heard && len(c.endpoints) > 0 {
		if first, err := netip.ParseAddrPort(c.endpoints[0]); err == nil && first.Port() != 0 {
			c.at, c.address = 0, netip.AddrPortFrom(first.Addr().Unmap(), first.Port())
		}
	}
	if c.address.IsValid() {
		c.since = now
	}
	return c
}

// Follow resolves the endpoints of peers that are new, and chooses the next one
// for those that the active gateway has not heard from for a while. One that
// stands by follows what the active one says: whoever takes over, or is started
// anew, then calls a gateway that is at work, and not the first of several. It
// tells whether Of answers anything else than before.
func (e *Endpoints) Follow(ctx context.Context, all []*v1alpha1.TunnelEndpoint, active bool, heard func(name string) bool) (changed bool) {
	now := e.Clock.Now()
	var due []*v1alpha1.TunnelEndpoint
	e.mu.Lock()
	known := e.peers
	e.peers = make(map[string]*called, len(all))
	for _, te := range all {
		c := known[te.Name]
		if !c.is(te) {
			c = newCalled(te, now)
		}
		e.peers[te.Name] = c
		if last := heardAt(te); last.IsValid() && (!active || !c.address.IsValid()) {
			changed = changed || c.address != last
			c.address, c.heard, c.since = last, true, now
			continue
		}
		switch {
		case !c.address.IsValid() && len(c.endpoints) > 0:
			if c.since.IsZero() || now.Sub(c.since) >= resolveAgain {
				due = append(due, te)
			}
		case !active || heard(te.Name):
			c.since = now
		case len(c.endpoints) > 0 && now.Sub(c.since) >= endpointPatience:
			due = append(due, te)
		}
	}
	e.mu.Unlock()

	var resolving sync.WaitGroup
	limit := make(chan struct{}, 16)
	answers := make([]netip.AddrPort, len(due))
	for i, te := range due {
		limit <- struct{}{}
		resolving.Go(func() {
			defer func() { <-limit }()
			answers[i] = e.next(ctx, te)
		})
	}
	resolving.Wait()

	e.mu.Lock()
	defer e.mu.Unlock()
	for i, te := range due {
		c := e.peers[te.Name]
		c.since = now
		if answers[i].IsValid() && answers[i] != c.address {
			c.address, c.heard, changed = answers[i], false, true
		}
	}
	return changed
}

// is tells whether what is known is of this very peer, called at these endpoints.
func (c *called) is(te *v1alpha1.TunnelEndpoint) bool {
	return c != nil && c.uid == te.UID && slices.Equal(c.endpoints, te.Spec.Endpoints)
}

// heardAt is where the active gateway hears a peer from, as far as it has said.
func heardAt(te *v1alpha1.TunnelEndpoint) netip.AddrPort {
	if te.Status.Phase != v1alpha1.TunnelConnected || te.Status.ObservedGeneration != te.Generation {
		return netip.AddrPort{}
	}
	at, err := netip.ParseAddrPort(te.Status.Endpoint)
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}

// next goes on to the endpoint after the one that is called, or to the one
// after that where it does not resolve.
func (e *Endpoints) next(ctx context.Context, te *v1alpha1.TunnelEndpoint) netip.AddrPort {
	e.mu.Lock()
	c := e.peers[te.Name]
	at, endpoints := c.at, c.endpoints[:min(len(c.endpoints), maxEndpoints)]
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, resolvePatience)
	defer cancel()
	var address netip.AddrPort
	for range endpoints {
		at = (at + 1) % len(endpoints)
		// The names after one that takes too long have their turn next time.
		if address = e.resolve(ctx, endpoints[at]); address.IsValid() || ctx.Err() != nil {
			break
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.at = at
	return address
}

// resolve reads an endpoint, host:port. A name is asked for each time: it may
// lead elsewhere by now, and that is tried by then.
func (e *Endpoints) resolve(ctx context.Context, endpoint string) netip.AddrPort {
	host, service, err := net.SplitHostPort(endpoint)
	if err != nil {
		return netip.AddrPort{}
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	addresses, err := e.Lookup(ctx, host)
	if err != nil || len(addresses) == 0 {
		return netip.AddrPort{}
	}
	// Nodes have IPv4 more often than a way to any IPv6 address.
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int {
		return map[bool]int{true: -1}[a.Unmap().Is4()] - map[bool]int{true: -1}[b.Unmap().Is4()]
	})
	return netip.AddrPortFrom(addresses[0].Unmap(), uint16(port))
}
