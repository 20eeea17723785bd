// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"net/netip"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// shrinkTunnel removes peers, and ranges of peers, from WireGuard before the chains are changed. If a later step fails,
// no peer can send from a range for which the chains of another peer are already applied.
func (a *Applier) shrinkTunnel(s model.State) error {
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
		} else if left := intersection(p.AllowedIPs, s.Tunnel.Peers[at].AllowedIPs); !slices.Equal(left, p.AllowedIPs) {
			change.Set = append(change.Set, model.TunnelPeer{PublicKey: p.PublicKey, Keepalive: p.Keepalive, AllowedIPs: left})
		}
	}
	if len(change.Remove)+len(change.Set) == 0 {
		return nil
	}
	return a.write(a.kernel.ChangeTunnel(s.Tunnel.Link, change))
}

// tunnel configures WireGuard in one call. Unchanged peers keep their sessions. unguarded are the IP families whose
// chains could not be applied: no peer gets new ranges of these families.
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
		want.Peers = limitPeers(have.Peers, want.Peers, unguarded)
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

// limitPeers returns the wanted peers without the ranges that they do not have yet in the unguarded families. New peers
// without a remaining range are omitted.
func limitPeers(have, want []model.TunnelPeer, unguarded []model.Family) []model.TunnelPeer {
	var peers []model.TunnelPeer
	for _, p := range want {
		var had []netip.Prefix
		at := slices.IndexFunc(have, func(other model.TunnelPeer) bool { return other.PublicKey == p.PublicKey })
		if at >= 0 {
			had = intersection(have[at].AllowedIPs, p.AllowedIPs)
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

// intersection returns the addresses that are in both lists, as sorted ranges.
func intersection(some, others []netip.Prefix) []netip.Prefix {
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
		case a.endpointMatches(have.Peers[at], p):
			p.Endpoint = netip.AddrPort{}
		case !have.Peers[at].Endpoint.IsValid():
			// WireGuard starts no new handshake within five seconds of an unsuccessful one. As a peer without an
			// endpoint has no session to keep, it is recreated.
			change.Remove = append(change.Remove, p.PublicKey)
		}
		change.Set = append(change.Set, p)
	}
	return change, needed || len(d.gone)+len(d.set) > 0
}

func (a *Applier) samePeer(have, want model.TunnelPeer) bool {
	return have.Keepalive == want.Keepalive && slices.Equal(have.AllowedIPs, want.AllowedIPs) &&
		a.endpointMatches(have, want)
}

// endpointMatches reports whether the endpoint in the kernel is left unchanged: no endpoint is wanted, it is the wanted
// one, or WireGuard learned it from packets of the peer since the wanted one was configured.
func (a *Applier) endpointMatches(have, want model.TunnelPeer) bool {
	given, known := a.endpoints[want.PublicKey]
	return !want.Endpoint.IsValid() || have.Endpoint == want.Endpoint ||
		known && given == want.Endpoint && have.Endpoint.IsValid()
}
