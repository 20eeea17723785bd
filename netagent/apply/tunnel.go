// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"net/netip"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// narrow takes from WireGuard's peers what they are not to have any more, before
// the chains follow: whatever fails after it, nobody keeps a range that another
// one is given.
func (a *Applier) narrow(s model.State) error {
	if s.Tunnel == nil {
		return nil
	}
	have, err := a.kernel.Tunnel(s.Tunnel.Link)
	if err != nil {
		return err
	}
	var change kernel.TunnelChange
	for _, p := range have.Peers {
		at := slices.IndexFunc(s.Tunnel.Peers, func(want model.TunnelPeer) bool { return want.PublicKey == p.PublicKey })
		if at < 0 {
			change.Remove = append(change.Remove, p.PublicKey)
		} else if left := common(p.AllowedIPs, s.Tunnel.Peers[at].AllowedIPs); !slices.Equal(left, p.AllowedIPs) {
			change.Set = append(change.Set, model.TunnelPeer{PublicKey: p.PublicKey, Keepalive: p.Keepalive, AllowedIPs: left})
		}
	}
	if len(change.Remove)+len(change.Set) == 0 {
		return nil
	}
	return a.write(a.kernel.ChangeTunnel(s.Tunnel.Link, change))
}

// tunnel configures WireGuard, in one call. A peer that does not change keeps
// its session. None gets addresses of a family whose chains are not as they
// should be.
func (a *Applier) tunnel(s model.State, unguarded []model.Family) error {
	if s.Tunnel == nil {
		return nil
	}
	have, err := a.kernel.Tunnel(s.Tunnel.Link)
	if err != nil {
		return err
	}
	want := *s.Tunnel
	if len(unguarded) > 0 {
		want.Peers = guarded(have.Peers, want.Peers, unguarded)
	}
	if change, needed := a.tunnelChange(have, want); needed {
		if err := a.write(a.kernel.ChangeTunnel(s.Tunnel.Link, change)); err != nil {
			return err
		}
	}
	clear(a.endpoints)
	for _, p := range want.Peers {
		a.endpoints[p.PublicKey] = p.Endpoint
	}
	return nil
}

// guarded are the peers that are wanted, of some families with those ranges alone
// that they have already. One that is left with none does not come.
func guarded(have, want []model.TunnelPeer, unguarded []model.Family) []model.TunnelPeer {
	var peers []model.TunnelPeer
	for _, p := range want {
		var had []netip.Prefix
		at := slices.IndexFunc(have, func(other model.TunnelPeer) bool { return other.PublicKey == p.PublicKey })
		if at >= 0 {
			had = common(have[at].AllowedIPs, p.AllowedIPs)
		}
		var ranges []netip.Prefix
		for _, r := range p.AllowedIPs {
			if !slices.Contains(unguarded, model.FamilyOf(r.Addr())) {
				ranges = append(ranges, r)
			}
		}
		for _, r := range had {
			if slices.Contains(unguarded, model.FamilyOf(r.Addr())) {
				ranges = append(ranges, r)
			}
		}
		if len(ranges) > 0 || at >= 0 {
			p.AllowedIPs = union(ranges, nil)
			peers = append(peers, p)
		}
	}
	return peers
}

// common are the ranges that are within both, in order.
func common(some, others []netip.Prefix) []netip.Prefix {
	within := func(ranges, all []netip.Prefix) (inside []netip.Prefix) {
		for _, r := range ranges {
			if slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Bits() <= r.Bits() && p.Contains(r.Addr()) }) {
				inside = append(inside, r)
			}
		}
		return inside
	}
	return union(within(some, others), within(others, some))
}

func (a *Applier) tunnelChange(have, want model.Tunnel) (change kernel.TunnelChange, needed bool) {
	if have.PrivateKey != want.PrivateKey {
		change.PrivateKey, needed = &want.PrivateKey, true
	}
	if have.Port != want.Port {
		change.Port, needed = &want.Port, true
	}
	d := diff(have.Peers, want.Peers, func(p model.TunnelPeer) model.PublicKey { return p.PublicKey }, a.samePeer)
	for _, p := range d.gone {
		change.Remove = append(change.Remove, p.PublicKey)
	}
	for _, p := range d.set {
		at := slices.IndexFunc(have.Peers, func(other model.TunnelPeer) bool { return other.PublicKey == p.PublicKey })
		switch {
		case at < 0:
		case a.mayStay(have.Peers[at], p):
			p.Endpoint = netip.AddrPort{}
		case !have.Peers[at].Endpoint.IsValid():
			// A handshake that led nowhere counts as one that was begun, and WireGuard
			// begins no other for five seconds. There is no session to be kept.
			change.Remove = append(change.Remove, p.PublicKey)
		}
		change.Set = append(change.Set, p)
	}
	return change, needed || len(d.gone)+len(d.set) > 0
}

func (a *Applier) samePeer(have, want model.TunnelPeer) bool {
	return have.Keepalive == want.Keepalive && slices.Equal(have.AllowedIPs, want.AllowedIPs) && a.mayStay(have, want)
}

// mayStay tells whether a peer may be called where the kernel calls it now.
func (a *Applier) mayStay(have, want model.TunnelPeer) bool {
	given, known := a.endpoints[want.PublicKey]
	return !want.Endpoint.IsValid() || have.Endpoint == want.Endpoint || known && given == want.Endpoint && have.Endpoint.IsValid()
}
