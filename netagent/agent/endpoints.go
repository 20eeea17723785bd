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
	// endpointTimeout is the time that a peer may be unresponsive at one of its endpoints before its next endpoint is
	// used.
	endpointTimeout = 10 * time.Second
	// resolveTimeout bounds the resolution of all names of a peer. resolveRetry is the delay after a resolution
	// that found no address.
	resolveTimeout = 3 * time.Second
	resolveRetry   = 5 * time.Second
	// maxEndpoints bounds how many endpoints of a peer are used.
	maxEndpoints = 8
)

// Endpoints selects one endpoint for each peer. The first selection is the endpoint in the TunnelEndpoint's
// status, where the active gateway last received packets from the peer, or the first endpoint in the spec if the
// status has none. While a peer is unresponsive, the endpoints in the spec are used in turn.
type Endpoints struct {
	// Lookup returns the addresses of a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Clock  clock.Clock

	mu    sync.Mutex
	peers map[string]*peerEndpoint
}

// peerEndpoint is the endpoint selected for one peer.
type peerEndpoint struct {
	uid       types.UID // UID of the TunnelEndpoint, to detect its recreation under the same name
	endpoints []string
	index     int
	since     time.Time
	address   netip.AddrPort
	learned   bool // whether packets were received from address
}

// NewEndpoints returns an Endpoints that uses the resolver of the node.
func NewEndpoints() *Endpoints {
	return &Endpoints{
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		Clock: clock.RealClock{},
	}
}

// Of returns the address of the endpoint selected for a peer, and whether it was learned from packets that the
// peer sent. The address is invalid if the peer announces no endpoint or its names are not resolved yet.
// Endpoints that need no resolution are available before the first call of Follow.
func (e *Endpoints) Of(te *v1alpha1.TunnelEndpoint) (address netip.AddrPort, learned bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.peers[te.Name]; c.matches(te) {
		return c.address, c.learned
	}
	c := newPeerEndpoint(te, e.Clock.Now())
	return c.address, c.learned
}

// newPeerEndpoint returns the initial selection for a peer: the endpoint in its status, or the first endpoint in
// its spec if the host of that endpoint is an IP address.
func newPeerEndpoint(te *v1alpha1.TunnelEndpoint, now time.Time) *peerEndpoint {
	p := &peerEndpoint{uid: te.UID, endpoints: slices.Clone(te.Spec.Endpoints), index: -1, address: reportedEndpoint(te)}
	p.learned = p.address.IsValid()
	if !p.learned && len(p.endpoints) > 0 {
		if first, err := netip.ParseAddrPort(p.endpoints[0]); err == nil && first.Port() != 0 {
			p.index, p.address = 0, netip.AddrPortFrom(first.Addr().Unmap(), first.Port())
		}
	}
	if p.address.IsValid() {
		p.since = now
	}
	return p
}

// Follow updates the selections and resolves the names of new peers. Call it about once a second. On the active
// gateway it selects the next endpoint of each peer for which connected has returned false for longer than
// endpointTimeout. A standby gateway uses the endpoints that the active gateway reports, so that they work when
// it takes over. Follow reports whether a result of Of has changed.
func (e *Endpoints) Follow(
	ctx context.Context,
	all []*v1alpha1.TunnelEndpoint,
	active bool,
	connected func(name string) bool,
) (changed bool) {
	now := e.Clock.Now()
	var due []*v1alpha1.TunnelEndpoint
	e.mu.Lock()
	previous := e.peers
	e.peers = make(map[string]*peerEndpoint, len(all))
	for _, te := range all {
		c := previous[te.Name]
		if !c.matches(te) {
			c = newPeerEndpoint(te, now)
		}
		e.peers[te.Name] = c
		if last := reportedEndpoint(te); last.IsValid() && (!active || !c.address.IsValid()) {
			changed = changed || c.address != last
			c.address, c.learned, c.since = last, true, now
			continue
		}
		switch {
		case !c.address.IsValid() && len(c.endpoints) > 0:
			if c.since.IsZero() || now.Sub(c.since) >= resolveRetry {
				due = append(due, te)
			}
		case !active || connected(te.Name):
			c.since = now
		case len(c.endpoints) > 0 && now.Sub(c.since) >= endpointTimeout:
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
			c.address, c.learned, changed = answers[i], false, true
		}
	}
	return changed
}

// matches reports whether the selection was made for this TunnelEndpoint and its current endpoints.
func (c *peerEndpoint) matches(te *v1alpha1.TunnelEndpoint) bool {
	return c != nil && c.uid == te.UID && slices.Equal(c.endpoints, te.Spec.Endpoints)
}

// reportedEndpoint returns the endpoint in the status, at which the active gateway is connected to the peer. It
// is invalid if the peer is not connected or the status is outdated.
func reportedEndpoint(te *v1alpha1.TunnelEndpoint) netip.AddrPort {
	if te.Status.Phase != v1alpha1.TunnelConnected || te.Status.ObservedGeneration != te.Generation {
		return netip.AddrPort{}
	}
	at, err := netip.ParseAddrPort(te.Status.Endpoint)
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}

// next resolves the endpoints that follow the current one, in turn, and returns the first address found. The
// address is invalid if no endpoint has one.
func (e *Endpoints) next(ctx context.Context, te *v1alpha1.TunnelEndpoint) netip.AddrPort {
	e.mu.Lock()
	c := e.peers[te.Name]
	at, endpoints := c.index, c.endpoints[:min(len(c.endpoints), maxEndpoints)]
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var address netip.AddrPort
	for range endpoints {
		at = (at + 1) % len(endpoints)
		// After a timeout the next call continues behind the endpoint that timed out.
		if address = e.resolve(ctx, endpoints[at]); address.IsValid() || ctx.Err() != nil {
			break
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.index = at
	return address
}

// resolve returns the address of an endpoint in the form host:port, and an invalid address if it has none. Names
// are resolved on each call, as their addresses may change.
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
	// IPv4 comes first: not every node has an IPv6 route to the internet.
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int {
		return map[bool]int{true: -1}[a.Unmap().Is4()] - map[bool]int{true: -1}[b.Unmap().Is4()]
	})
	return netip.AddrPortFrom(addresses[0].Unmap(), uint16(port))
}
