// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"
	"time"
)

// Gateway returns the state of a gateway on its node (host) and in its own network namespace (inside), and the
// peers that are refused. It fails if the values of the local cluster are invalid.
//
// The state of a standby gateway lacks only the peers of the tunnel: all gateways have the same private key, so that
// with peers a standby gateway would receive packets for the active one. It takes over by adding the peers.
func Gateway(in Input) (host, inside State, refused []Refusal, err error) {
	v, err := in.view()
	if err == nil {
		err = in.checkTunnel()
	}
	if err != nil {
		return State{}, State{}, nil, err
	}
	peers, refused := in.accepted()
	return v.gatewayHost(), v.gatewayInside(peers), refused, nil
}

func (v *view) gatewayHost() State {
	s := State{
		Scope:   Scope{Links: []string{HostLink}},
		Links:   []Link{{Name: HostLink, Kind: Veth, MTU: v.in.MTU, MAC: hostMAC, Peer: GatewayLink, PeerMAC: gatewayMAC}},
		Sysctls: linkSysctls(HostLink, v.families),
	}
	for _, f := range v.families {
		s.Neighbors = append(s.Neighbors, Neighbor{Link: HostLink, Addr: vethHop(gatewayHop, gatewayMAC, f), MAC: gatewayMAC})
	}
	sortState(&s)
	return s
}

func (v *view) gatewayInside(peers []Peer) State {
	s := State{
		// Chains of IPv6 are owned even if pods have IPv4 addresses only: control plane traffic needs them, and they must be
		// deleted when no peer has control plane traffic any more.
		Scope: Scope{Links: []string{GatewayLink, TunnelLink}, Routing: true, Families: []Family{IPv4, IPv6}},
		Links: []Link{
			{Name: GatewayLink, Kind: VethEnd, MTU: v.in.MTU, MAC: gatewayMAC},
			{Name: TunnelLink, Kind: WireGuard, MTU: v.in.tunnelMTU()},
		},
		Tunnel: &Tunnel{Link: TunnelLink, PrivateKey: v.in.PrivateKey.clamped(), Port: v.in.Port},
	}
	for _, f := range v.families {
		s.Neighbors = append(s.Neighbors, Neighbor{Link: GatewayLink, Addr: vethHop(hostHop, hostMAC, f), MAC: hostMAC})
		s.Routes = append(
			s.Routes, Route{Table: MainTable, Dst: defaultRoute(f), Via: vethHop(hostHop, hostMAC, f), Link: GatewayLink},
		)
		s.Sysctls = append(s.Sysctls, insideSysctls(f)...)
		s.Addresses = append(s.Addresses, Address{Link: TunnelLink, Addr: GatewaySelf(f)})
	}
	for _, p := range peers {
		mtu := v.in.routeMTU(p)
		if mtu == v.in.tunnelMTU() {
			mtu = 0
		}
		remote := v.inFamilies(p.Remote)
		for _, r := range remote {
			s.Routes = append(s.Routes, Route{Table: MainTable, Dst: r, Link: TunnelLink, MTU: mtu})
		}
		allowed := remote
		if p.Control.enabled() {
			allowed = append(allowed, host(ControlAddress(p.PublicKey)))
			slices.SortFunc(allowed, ComparePrefix)
		}
		if v.in.Node == v.in.Active && len(allowed) > 0 {
			s.Tunnel.Peers = append(s.Tunnel.Peers, TunnelPeer{
				PublicKey: p.PublicKey, Endpoint: p.Endpoint, Keepalive: p.keepalive(), AllowedIPs: allowed,
			})
		}
	}
	v.control(&s, controlPeers(peers))
	families := v.families
	if len(controlPeers(peers)) > 0 && !slices.Contains(families, IPv6) {
		families = []Family{IPv4, IPv6}
		s.Sysctls = append(s.Sysctls, linkSysctls(TunnelLink, []Family{IPv6})...)
	}
	for _, f := range families {
		v.gatewayChains(&s, f, peers)
	}
	sortState(&s)
	return s
}

// keepalive is the interval of keepalives on an idle tunnel, which is less than the 30 seconds after which NAT
// devices on the path may forget the connection. WireGuard sends the first one at once: after a takeover, peers
// learn the new endpoint from it.
const keepalive = 25 * time.Second

// keepalive returns the keepalive interval for a peer. It is 0 if the peer has no endpoint, as no handshake can
// be initiated then.
func (p Peer) keepalive() time.Duration {
	if !p.Endpoint.IsValid() {
		return 0
	}
	return keepalive
}

// representative returns the address from which a peer receives packets of all local senders that are not pods: the
// first address, which no pod has, of the first remapped CIDR of the family. It is invalid if Local has no CIDR of the
// family.
func (p Peer) representative(f Family) netip.Addr {
	for _, r := range p.Local {
		if familyOfPrefix(r.Mapped) == f {
			return r.Mapped.Addr()
		}
	}
	return netip.Addr{}
}

// insideSysctls returns the kernel parameters that make the gateway's network namespace a router.
func insideSysctls(f Family) []Sysctl {
	if f == IPv4 {
		settings := []Sysctl{{"net/ipv4/ip_forward", "1"}}
		for _, conf := range []string{"all", GatewayLink, TunnelLink} {
			settings = append(settings, Sysctl{"net/ipv4/conf/" + conf + "/rp_filter", "0"})
		}
		return settings
	}
	settings := []Sysctl{{"net/ipv6/conf/all/forwarding", "1"}}
	for _, link := range []string{GatewayLink, TunnelLink} {
		settings = append(settings, linkSysctls(link, []Family{IPv6})...)
	}
	return settings
}

func defaultRoute(f Family) netip.Prefix {
	if f == IPv4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// sortState sorts the lists whose order has no meaning, so that equal states compare as equal.
func sortState(s *State) {
	slices.SortFunc(s.Addresses, func(a, b Address) int { return a.Addr.Compare(b.Addr) })
	slices.SortFunc(s.Neighbors, func(a, b Neighbor) int { return a.Addr.Compare(b.Addr) })
	slices.SortFunc(s.FDBEntries, func(a, b FDBEntry) int { return a.Node.Compare(b.Node) })
	slices.SortFunc(s.Routes, func(a, b Route) int {
		if a.Table != b.Table {
			return a.Table - b.Table
		}
		return ComparePrefix(a.Dst, b.Dst)
	})
}
