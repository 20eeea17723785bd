// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"net/netip"
	"slices"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// tunnel configures WireGuard, in one call. A peer that does not change keeps
// its session. Where the chains are not as they should be, peers go, and none
// comes or gets more addresses.
func (a *Applier) tunnel(s model.State, guarded bool) error {
	if s.Tunnel == nil {
		return nil
	}
	have, err := a.kernel.Tunnel(s.Tunnel.Link)
	if err != nil {
		return err
	}
	change, needed := a.tunnelChange(have, *s.Tunnel)
	if !guarded {
		change.Set = nil
		needed = change.PrivateKey != nil || change.Port != nil || len(change.Remove) > 0
	}
	if needed {
		if err := a.write(a.kernel.ChangeTunnel(s.Tunnel.Link, change)); err != nil {
			return err
		}
	}
	if !guarded {
		return nil // the pass that is made next sets peers
	}
	clear(a.endpoints)
	for _, p := range s.Tunnel.Peers {
		a.endpoints[p.PublicKey] = p.Endpoint
	}
	return nil
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
		if at >= 0 && a.mayStay(have.Peers[at], p) {
			p.Endpoint = netip.AddrPort{}
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
