// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/ecdh"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestControlAddressIsDerivedFromThePublicKey(t *testing.T) {
	for _, test := range []struct {
		key  PublicKey
		want string
	}{
		{PublicKey{2}, "fd6c:6971:6f00:5778:f985:db75:4c66:2869"},
		{PublicKey{3}, "fd6c:6971:6f00:91d3:827f:52f:5a4b:44d5"},
	} {
		if got := ControlAddress(test.key); got != addr(test.want) {
			t.Errorf("ControlAddress(%s) = %s, want %s", test.key, got, test.want)
		}
	}
}

func TestPublicKeyIsDerivedFromThePrivateKey(t *testing.T) {
	key, err := ecdh.X25519().NewPrivateKey(append(make([]byte, 31), 64))
	if err != nil {
		t.Fatal(err)
	}
	if got := PrivateKey(key.Bytes()).Public(); got != PublicKey(key.PublicKey().Bytes()) {
		t.Errorf("the public key is %s", got)
	}
	if before, clamped := (PrivateKey{1}).Public(), (PrivateKey{1}).clamped().Public(); before != clamped {
		t.Errorf("a key and its clamped key have different public keys: %s, %s", before, clamped)
	}
}

// controlOnly returns a peer whose tunnel carries nothing but the control plane.
func controlOnly(c Control) Peer {
	p := milan()
	p.Local, p.Remote, p.Mappings, p.MTU, p.Control = nil, nil, nil, 0, c
	return p
}

func TestTunnelCarriesTheControlPlaneBeforeCIDRsAreAgreedUpon(t *testing.T) {
	self, peer := ControlAddress(PrivateKey{1}.Public()), ControlAddress(PublicKey{2})
	admitted := fmt.Sprintf(
		"mangle -A LIQO-PREROUTING -s %s/128 -d %s/128 -i liqo.wg -p tcp -m tcp --dport 5877 -j ACCEPT\n", peer, self,
	)
	for _, test := range []struct {
		name    string
		control Control
		pods    []netip.Prefix
		admits  string
	}{
		{"serve", Control{Serve: true}, []netip.Prefix{prefix("10.0.0.0/16")}, admitted},
		{"call", Control{Call: true}, []netip.Prefix{prefix("10.0.0.0/16")}, ""},
		{
			"serve and call", Control{Serve: true, Call: true}, []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/48")},
			admitted,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := rome("rome-1")
			in.PodCIDRs, in.Peers = test.pods, []Peer{controlOnly(test.control)}
			_, inside, refused, err := Gateway(in)
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			wantChains := `mangle -A PREROUTING -j LIQO-PREROUTING
mangle -A FORWARD -j LIQO-FORWARD
nat -A PREROUTING -j LIQO-PREROUTING
nat -A POSTROUTING -j LIQO-POSTROUTING
mangle -A LIQO-PREROUTING -i liqo.wg -m conntrack --ctstate ESTABLISHED --ctdir REPLY -j ACCEPT
mangle -A LIQO-PREROUTING -i liqo.wg -m conntrack --ctstate RELATED -j ACCEPT
` + test.admits + `mangle -A LIQO-PREROUTING -d fd6c:6971:6f00::/48 -i liqo.gateway -j DROP
mangle -A LIQO-PREROUTING -i liqo.wg -j DROP
mangle -A LIQO-FORWARD -i liqo.gateway -o liqo.gateway -j DROP
mangle -A LIQO-FORWARD -i liqo.gateway -p udp -m udp --dport 5874 -j LIQO-TO-GATEWAYS
mangle -A LIQO-FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
`
			if diff := cmp.Diff(wantChains, dump(inside, IPv6)); diff != "" {
				t.Errorf("chains (-want +got):\n%s", diff)
			}
			if !slices.Contains(inside.Addresses, Address{Link: TunnelLink, Addr: self}) {
				t.Errorf("the gateway has no control address: %v", inside.Addresses)
			}
			if route := (Route{
				Table: MainTable, Dst: host(peer), Link: TunnelLink, MTU: 1280,
			}); !slices.Contains(inside.Routes, route) {
				t.Errorf("no route to the peer's control address: %v", inside.Routes)
			}
			if !slices.Contains(inside.Sysctls, Sysctl{"net/ipv6/conf/liqo.wg/disable_ipv6", "0"}) {
				t.Errorf("IPv6 is not enabled: %v", inside.Sysctls)
			}
			want := []TunnelPeer{
				{PublicKey: PublicKey{2}, Endpoint: milan().Endpoint, Keepalive: keepalive, AllowedIPs: []netip.Prefix{host(peer)}},
			}
			if diff := cmp.Diff(want, inside.Tunnel.Peers, values); diff != "" {
				t.Errorf("peers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDisabledControlPlaneLeavesNoTrace(t *testing.T) {
	_, inside, _, err := Gateway(rome("rome-1"))
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(inside); strings.Contains(text, "fd6c:6971:6f00") || strings.Contains(
		text, fmt.Sprint(ControlPort),
	) {
		t.Errorf("control plane found in: %s", text)
	}
	in := rome("rome-1")
	in.Peers = []Peer{controlOnly(Control{})}
	if _, _, refused, _ := Gateway(in); len(refused) != 1 {
		t.Errorf("a peer with neither CIDRs nor a control plane is served")
	}
}

func TestPeersCannotAnnounceControlAddresses(t *testing.T) {
	in := rome("rome-1")
	in.Peers[0].Remote = append(in.Peers[0].Remote, prefix("fd6c:6971:6f00:1::/64"))
	if _, _, refused, _ := Gateway(in); len(refused) != 1 || !strings.Contains(refused[0].Reason, "fd6c:6971:6f00::/48") {
		t.Errorf("refused: %v", refused)
	}
}

func TestNodesHaveNoRoutesToControlAddresses(t *testing.T) {
	in := rome("rome-2")
	in.Peers = []Peer{controlOnly(Control{Serve: true, Call: true})}
	s, refused, err := RouteAgent(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if text := fmt.Sprint(s); strings.Contains(text, "fd6c:6971:6f00") {
		t.Errorf("control address found in: %s", text)
	}
}

// A peer is admitted to the control port if its Control.Serve is set, from its own control address, which no
// other peer may use.
func TestEachPeerIsAdmittedFromItsOwnControlAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		in.Node, in.Active = "rome-1", "rome-1"
		for i := range in.Peers {
			in.Peers[i].Control = Control{Serve: rapid.Bool().Draw(t, "serve"), Call: rapid.Bool().Draw(t, "call")}
		}
		_, inside, refused, err := Gateway(in)
		if err != nil {
			t.Fatal(err)
		}
		rules, seen := dump(inside, IPv6), make(map[netip.Prefix]bool)
		for _, p := range in.Peers {
			control := host(ControlAddress(p.PublicKey))
			at := slices.IndexFunc(inside.Tunnel.Peers, func(tp TunnelPeer) bool { return tp.PublicKey == p.PublicKey })
			isRefused := slices.ContainsFunc(refused, func(r Refusal) bool { return r.ClusterID == p.ClusterID })
			if isRefused {
				continue
			}
			if carries := slices.Contains(inside.Tunnel.Peers[at].AllowedIPs, control); carries != p.Control.enabled() {
				t.Fatalf("%s: %+v, allowed IPs %v", p.ClusterID, p.Control, inside.Tunnel.Peers[at].AllowedIPs)
			}
			if admitted := strings.Contains(rules, fmt.Sprintf("-s %s -d ", control)); admitted != p.Control.Serve {
				t.Fatalf("%s: %+v, admitted: %v", p.ClusterID, p.Control, admitted)
			}
			if seen[control] {
				t.Fatalf("%s belongs to another peer", control)
			}
			seen[control] = true
			if !slices.IsSortedFunc(inside.Tunnel.Peers[at].AllowedIPs, ComparePrefix) {
				t.Fatalf("unsorted allowed IPs: %v", inside.Tunnel.Peers[at].AllowedIPs)
			}
		}
	})
}
