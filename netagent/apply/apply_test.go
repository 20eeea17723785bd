// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// input returns the input for node rome-1 of a cluster with two nodes and the given peers.
func input(peers ...model.Peer) model.Input {
	return model.Input{
		Node: "rome-1",
		Nodes: []model.Node{
			{
				Name:      "rome-1",
				Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.1")},
				PodCIDRs:  []netip.Prefix{prefix("10.0.1.0/24")},
			},
			{
				Name:      "rome-2",
				Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.2")},
				PodCIDRs:  []netip.Prefix{prefix("10.0.2.0/24")},
			},
		},
		Gateways: []string{"rome-1"}, Active: "rome-1",
		PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/48")},
		MTU:      1500, Port: 51820, PrivateKey: model.PrivateKey{1}, Peers: peers,
	}
}

func peer(n byte) model.Peer {
	return model.Peer{
		ClusterID: fmt.Sprintf("cluster-%d", n), PublicKey: model.PublicKey{n},
		Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, 0, n}), 51820),
		Local: []netmap.CIDRMapping{
			{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.2.0.0/16")},
			{CIDR: prefix("fd10::/48"), Mapped: prefix("fd12::/48")},
		},
		Remote: []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100 + n}), 16),
			prefix(fmt.Sprintf("fd11:%d::/48", n)),
		},
	}
}

// node is a node that runs a gateway and a route agent. Outer is the node's network namespace, and inner the
// gateway's. Host and inside apply the states of the gateway, route applies the state of the route agent.
type node struct {
	outer, inner        *fake.Kernel
	host, inside, route *Applier
}

func newNode() *node {
	n := &node{outer: fake.New(), inner: fake.New()}
	n.outer.Inner = n.inner
	n.host, n.inside, n.route = New(n.outer), New(n.inner), New(n.outer)
	return n
}

func (n *node) apply(in model.Input) (writes int, err error) {
	host, inside, refused, err := model.Gateway(in)
	if err != nil || len(refused) > 0 {
		return 0, fmt.Errorf("%v %w", refused, err)
	}
	route, _, err := model.RouteAgent(in)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, step := range []struct {
		applier *Applier
		state   model.State
	}{{n.host, host}, {n.inside, inside}, {n.route, route}} {
		wrote, err := step.applier.Apply(step.state)
		writes += wrote
		errs = append(errs, err)
	}
	return writes, errors.Join(errs...)
}

func (n *node) teardown() error {
	families := []model.Family{model.IPv4, model.IPv6}
	_, first := n.route.Teardown(model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families})
	_, second := n.inside.Teardown(
		model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families},
	)
	_, third := n.host.Teardown(model.Scope{Links: []string{model.HostLink}})
	return errors.Join(first, second, third)
}

func (n *node) dump() string { return n.outer.Dump() + n.inner.Dump() }

func (n *node) writes() int { return n.outer.Writes + n.inner.Writes }

// must applies the states for an input twice, and requires that the second time writes nothing.
func (n *node) must(t *testing.T, in model.Input) string {
	t.Helper()
	if _, err := n.apply(in); err != nil {
		t.Fatal(err)
	}
	before := n.writes()
	writes, err := n.apply(in)
	if err != nil {
		t.Fatal(err)
	}
	if writes != 0 || n.writes() != before {
		t.Fatalf("applying again reported %d writes and made %d", writes, n.writes()-before)
	}
	return n.dump()
}

// allowed returns the ranges of a peer in the tunnel; nil if the tunnel does not have the peer.
func (n *node) allowed(t *testing.T, p model.Peer) []netip.Prefix {
	t.Helper()
	tunnel, err := n.inner.Tunnel(model.TunnelLink)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range tunnel.Peers {
		if has.PublicKey == p.PublicKey {
			return append([]netip.Prefix{}, has.AllowedIPs...)
		}
	}
	return nil
}

// filterChainOf returns the name of the chain that filters packets from a range; empty if there is none.
func (n *node) filterChainOf(t *testing.T, from netip.Prefix) string {
	t.Helper()
	chains, _, err := n.inner.Chains(model.FamilyOf(from.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chains {
		for _, rule := range c.Rules {
			if to, ok := strings.CutPrefix(rule, "-s "+from.String()+" -i liqo.wg -j "); ok && c.Table == "mangle" {
				return to
			}
		}
	}
	return ""
}

func TestSecondPassWritesNothing(t *testing.T) {
	n := newNode()
	n.must(t, input())
	n.must(t, input(peer(1)))
	n.must(t, input(peer(1), peer(2)))
	withTwo := n.dump()
	n.must(t, input(peer(2)))
	n.must(t, input(peer(1), peer(2)))
	if diff := cmp.Diff(withTwo, n.dump()); diff != "" {
		t.Errorf("a peer was deleted and added again (-before +after):\n%s", diff)
	}
}

func TestResultDoesNotDependOnTheOrderOfPeers(t *testing.T) {
	direct, detour := newNode(), newNode()
	want := direct.must(t, input(peer(1)))
	other := input(peer(2), peer(3))
	other.MTU, other.Port = 9000, 4500
	detour.must(t, other)
	if diff := cmp.Diff(want, detour.must(t, input(peer(1)))); diff != "" {
		t.Errorf("(-applied once +applied after other peers):\n%s", diff)
	}
}

func TestIptablesTeardownRemovesAll(t *testing.T) {
	n := newNode()
	n.outer.AddForeignLink("cni0")
	n.outer.AddForeignLink("liqo.other") // not owned, despite its name
	n.outer.AddForeignRule(model.IPv4, "nat", "POSTROUTING", "-j CNI-POSTROUTING")
	n.outer.AddForeignRule(model.IPv4, "filter", "FORWARD", "-j KUBE-FORWARD")
	// Other programs may use the tables and priorities of the agents.
	n.outer.AddForeignRoute(model.Route{Table: model.PeersTable, Dst: prefix("192.0.2.0/24"), Link: "cni0"})
	n.outer.AddForeignRoute(model.Route{Table: model.NodesTable, Dst: prefix("fd99::/64"), Link: "cni0"})
	n.outer.AddForeignRoutingRule(model.Rule{Family: model.IPv4, Priority: model.RulePriority, Table: model.PeersTable})
	n.inner.AddForeignRoute(model.Route{Table: model.MainTable, Dst: prefix("192.0.2.0/24"), Link: "eth0"})
	before := n.dump()
	after := n.must(t, input(peer(1), peer(2)))
	if after == before {
		t.Fatal("nothing was written")
	}
	for line := range strings.Lines(before) {
		if !strings.HasPrefix(line, "base ") && !strings.Contains(after, line) {
			t.Errorf("deleted: %s", line)
		}
	}
	if err := n.teardown(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestAnyCallMayFailOnce(t *testing.T) {
	for _, failure := range []error{unix.EINTR, errors.New("no luck")} {
		want := newNode().must(t, input(peer(1)))
		for number := 1; ; number++ {
			n := newNode()
			n.must(t, input(peer(2)))
			calls := 0
			failed := false
			fail := func(int) error {
				if calls++; calls == number {
					failed = true
					return failure
				}
				return nil
			}
			n.outer.Fail, n.inner.Fail = fail, fail
			_, err := n.apply(input(peer(1)))
			if !failed {
				if number < 30 {
					t.Fatalf("only %d calls were made", number)
				}
				break
			}
			if kept := n.inner.FailedFlushes+n.outer.FailedFlushes > 0; errors.Is(err, failure) == kept {
				t.Fatalf("call %d failed and Apply returned %v", number, err)
			}
			n.outer.Fail, n.inner.Fail = nil, nil
			for _, r := range n.allowed(t, peer(1)) {
				if n.filterChainOf(t, r) == "" {
					t.Fatalf("after call %d failed, a peer has %s without its chains", number, r)
				}
			}
			if diff := cmp.Diff(want, n.must(t, input(peer(1)))); diff != "" {
				t.Fatalf("after call %d failed (-want +got):\n%s", number, diff)
			}
		}
	}
}

func TestLinkMayBeRecreatedAtAnyTime(t *testing.T) {
	want := newNode().must(t, input(peer(1)))
	for _, link := range []string{model.OverlayLink, model.HostLink, model.GatewayLink, model.TunnelLink} {
		for number := 1; ; number++ {
			n := newNode()
			n.must(t, input(peer(2)))
			calls, done := 0, false
			after := func(int) {
				if calls++; calls == number {
					done = true
					n.outer.Recreate(link)
					n.inner.Recreate(link)
				}
			}
			n.outer.After, n.inner.After = after, after
			_, _ = n.apply(input(peer(1))) // an error is possible, but not required
			if !done {
				break
			}
			if diff := cmp.Diff(want, n.must(t, input(peer(1)))); diff != "" {
				t.Fatalf("%s was recreated after call %d (-want +got):\n%s", link, number, diff)
			}
		}
	}
}

func TestRoamedPeerKeepsItsEndpoint(t *testing.T) {
	n := newNode()
	n.must(t, input(peer(1)))
	elsewhere := netip.MustParseAddrPort("172.31.0.1:1234")
	n.inner.MoveEndpoint(model.TunnelLink, model.PublicKey{1}, elsewhere)
	if !strings.Contains(n.must(t, input(peer(1))), elsewhere.String()) {
		t.Error("the endpoint of the roamed peer was replaced")
	}
	longer := peer(1)
	longer.Remote = append(longer.Remote, prefix("10.200.0.0/16"))
	if !strings.Contains(n.must(t, input(longer)), elsewhere.String()) {
		t.Error("the endpoint of the roamed peer was replaced when it got one more CIDR")
	}
	moved := peer(1)
	moved.Endpoint = netip.MustParseAddrPort("172.16.0.99:51820")
	if !strings.Contains(n.must(t, input(moved)), moved.Endpoint.String()) {
		t.Error("the new endpoint was not set")
	}
}

// WireGuard starts no new handshake within five seconds of an unsuccessful one, unless the peer is recreated.
func TestOnlyTheFirstEndpointRecreatesAPeer(t *testing.T) {
	n := newNode()
	changes := func(what string, endpoint string, want int) {
		t.Helper()
		p := peer(1)
		p.Endpoint = netip.AddrPort{}
		if endpoint != "" {
			p.Endpoint = netip.MustParseAddrPort(endpoint)
		}
		before := n.inner.PeersAdded
		n.must(t, input(p))
		if got := n.inner.PeersAdded - before; got != want {
			t.Errorf("%s: peers were added %d times, not %d", what, got, want)
		}
	}
	changes("without an endpoint", "", 1)
	changes("its name was resolved", "172.16.0.1:51820", 1)
	changes("its name resolves to another address", "172.16.0.2:51820", 0)
	changes("its name does not resolve any more", "", 0)
	n.inner.MoveEndpoint(model.TunnelLink, model.PublicKey{1}, netip.MustParseAddrPort("172.31.0.1:1234"))
	changes("it has roamed, and its name resolves to another address", "172.16.0.3:51820", 0)
}

// A range moves from one peer to another one and back. After no call to the kernel does a peer have the range
// while the chains in use are the other peer's.
func TestMovingRangeNeverBelongsToTwoPeers(t *testing.T) {
	first, second := peer(1), peer(2)
	with := func(p model.Peer, ranges ...netip.Prefix) model.Peer {
		p.Remote = append(slices.Clone(p.Remote), ranges...)
		return p
	}
	moving := prefix("10.200.0.0/16")
	n := newNode()
	n.must(t, input(with(first, moving), second))
	chains := map[model.PublicKey]string{
		first.PublicKey:  n.filterChainOf(t, first.Remote[0]),
		second.PublicKey: n.filterChainOf(t, second.Remote[0]),
	}
	looks := 0
	var look func(int)
	look = func(int) {
		n.inner.After = nil
		defer func() { n.inner.After = look }()
		looks++
		for _, p := range []model.Peer{first, second} {
			for _, r := range n.allowed(t, p) {
				if judge := n.filterChainOf(t, r); judge != chains[p.PublicKey] {
					t.Errorf("%s has %s, which chain %q filters", p.ClusterID, r, judge)
				}
			}
		}
	}
	n.inner.After = look
	for _, in := range []model.Input{
		input(first, with(second, moving)), input(with(first, moving), second), input(second), input(first),
	} {
		if _, err := n.apply(in); err != nil {
			t.Fatal(err)
		}
	}
	if looks == 0 {
		t.Error("no call was checked")
	}
}

// If the chains of a family cannot be written, no peer gets new ranges in this family. Everything else is
// applied.
func TestFailingChainsPreventNewRangesOnly(t *testing.T) {
	four := func(n byte) model.Peer {
		p := peer(n)
		p.Local, p.Remote = p.Local[:1], p.Remote[:1]
		return p
	}
	longer, shorter, half := peer(1), peer(1), peer(1)
	longer.Remote = append(slices.Clone(longer.Remote), prefix("10.200.0.0/16"), prefix("fd11:200::/48"))
	shorter.Remote = shorter.Remote[:1]
	half.Remote = []netip.Prefix{prefix("10.101.128.0/17"), prefix("fd11:1::/48")}
	one, one6 := peer(1).Remote[0], peer(1).Remote[1]
	for _, test := range []struct {
		name         string
		fails        []model.Family
		before, want model.Peer
		has          []netip.Prefix // of the first peer
	}{
		{"IPv6, and a peer without it is added", []model.Family{model.IPv6}, four(2), four(1), []netip.Prefix{one}},
		{"IPv6, and a peer with both is added", []model.Family{model.IPv6}, four(2), peer(1), []netip.Prefix{one}},
		{"IPv4, and a peer without IPv6 is added", []model.Family{model.IPv4}, peer(2), four(1), nil},
		{"both, and a peer is added", []model.Family{model.IPv4, model.IPv6}, peer(2), peer(1), nil},
		{"both, and a peer is deleted", []model.Family{model.IPv4, model.IPv6}, peer(1), peer(2), nil},
		{"both, and a peer gets more", []model.Family{model.IPv4, model.IPv6}, peer(1), longer, []netip.Prefix{one, one6}},
		{
			"IPv6, and a peer gets more", []model.Family{model.IPv6}, peer(1), longer,
			[]netip.Prefix{one, prefix("10.200.0.0/16"), one6},
		},
		{"both, and a peer has less", []model.Family{model.IPv4, model.IPv6}, longer, peer(1), []netip.Prefix{one, one6}},
		{"IPv6, and a peer has none of it", []model.Family{model.IPv6}, peer(1), shorter, []netip.Prefix{one}},
		{"both, and a peer has half of its range", []model.Family{model.IPv4, model.IPv6}, peer(1), half, half.Remote},
		{"both, and a peer has twice its range", []model.Family{model.IPv4, model.IPv6}, half, peer(1), half.Remote},
	} {
		for _, table := range []string{"", "mangle", model.NATTable} {
			t.Run(fmt.Sprintf("%s: table %q", test.name, table), func(t *testing.T) {
				n := newNode()
				n.must(t, input(test.before))
				n.inner.FailChains = func(f model.Family, at string) error {
					if at == table && slices.Contains(test.fails, f) {
						return errors.New("no luck")
					}
					return nil
				}
				_, _ = n.apply(input(test.want)) // no error if nothing changes
				if got := n.allowed(t, peer(1)); !slices.Equal(got, test.has) {
					t.Errorf("the first peer has %v, want %v", got, test.has)
				}
				n.inner.FailChains = nil
				fresh := newNode()
				if diff := cmp.Diff(fresh.must(t, input(test.want)), n.must(t, input(test.want))); diff != "" {
					t.Errorf("once chains can be written again (-fresh +recovered):\n%s", diff)
				}
			})
		}
	}
}
