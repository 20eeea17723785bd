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

	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// input is a cluster of two nodes, and one peer with the same addresses.
func input(peers ...model.Peer) model.Input {
	return model.Input{
		Node: "rome-1",
		Nodes: []model.Node{
			{Name: "rome-1", Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.1")}, PodCIDRs: []netip.Prefix{prefix("10.0.1.0/24")}},
			{Name: "rome-2", Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.2")}, PodCIDRs: []netip.Prefix{prefix("10.0.2.0/24")}},
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
		Local:    []model.Remap{{Own: prefix("10.0.0.0/16"), Seen: prefix("10.2.0.0/16")}, {Own: prefix("fd10::/48"), Seen: prefix("fd12::/48")}},
		Remote:   []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100 + n}), 16), prefix(fmt.Sprintf("fd11:%d::/48", n))},
	}
}

// node is a gateway's node, with its two namespaces and three appliers.
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
	_, second := n.inside.Teardown(model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families})
	_, third := n.host.Teardown(model.Scope{Links: []string{model.HostLink}})
	return errors.Join(first, second, third)
}

func (n *node) dump() string { return n.outer.Dump() + n.inner.Dump() }

func (n *node) writes() int { return n.outer.Writes + n.inner.Writes }

// must applies, twice: the second time nothing is written.
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
		t.Fatalf("a second pass wrote %d times by its own account, %d times in fact", writes, n.writes()-before)
	}
	return n.dump()
}

// serves tells whether a peer is one of the tunnel's.
func (n *node) serves(t *testing.T, p model.Peer) bool {
	t.Helper()
	tunnel, err := n.inner.Tunnel(model.TunnelLink)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(tunnel.Peers, func(has model.TunnelPeer) bool { return has.PublicKey == p.PublicKey })
}

// guards tells whether there are rules in each family about what a peer may
// call.
func (n *node) guards(t *testing.T, p model.Peer) bool {
	t.Helper()
	for i, f := range []model.Family{model.IPv4, model.IPv6} {
		chains, _, err := n.inner.Chains(f)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(chains, func(c model.Chain) bool {
			return c.Table == "mangle" && slices.ContainsFunc(c.Rules, func(rule string) bool { return strings.HasPrefix(rule, "-s "+p.Remote[i].String()+" ") })
		}) {
			return false
		}
	}
	return true
}

func TestASecondPassWritesNothing(t *testing.T) {
	n := newNode()
	n.must(t, input())
	n.must(t, input(peer(1)))
	n.must(t, input(peer(1), peer(2)))
	withTwo := n.dump()
	n.must(t, input(peer(2)))
	n.must(t, input(peer(1), peer(2)))
	if diff := cmp.Diff(withTwo, n.dump()); diff != "" {
		t.Errorf("a peer that went and came back (-before +after):\n%s", diff)
	}
}

func TestWhatIsWrittenDependsOnlyOnWhatIsWanted(t *testing.T) {
	direct, detour := newNode(), newNode()
	want := direct.must(t, input(peer(1)))
	other := input(peer(2), peer(3))
	other.MTU, other.Port = 9000, 4500
	detour.must(t, other)
	if diff := cmp.Diff(want, detour.must(t, input(peer(1)))); diff != "" {
		t.Errorf("(-direct +by a detour):\n%s", diff)
	}
}

// IptablesTeardownRemovesAll is a name of the table of known mistakes.
func TestIptablesTeardownRemovesAll(t *testing.T) {
	n := newNode()
	n.outer.AddLinkOfOthers("cni0")
	n.outer.AddLinkOfOthers("liqo.other") // not one of ours, whatever its name
	n.outer.AddRuleOfOthers(model.IPv4, "nat", "POSTROUTING", "-j CNI-POSTROUTING")
	n.outer.AddRuleOfOthers(model.IPv4, "filter", "FORWARD", "-j KUBE-FORWARD")
	before := n.dump()
	n.must(t, input(peer(1), peer(2)))
	if n.dump() == before {
		t.Fatal("nothing was written")
	}
	if err := n.teardown(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestEveryCallMayFailOnce(t *testing.T) {
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
			if kept := n.inner.NotForgotten+n.outer.NotForgotten > 0; errors.Is(err, failure) == kept {
				t.Fatalf("call %d failed and Apply says %v", number, err)
			}
			n.outer.Fail, n.inner.Fail = nil, nil
			if n.serves(t, peer(1)) && !n.guards(t, peer(1)) {
				t.Fatalf("after call %d failed, a peer is served without its chains", number)
			}
			if diff := cmp.Diff(want, n.must(t, input(peer(1)))); diff != "" {
				t.Fatalf("after call %d failed (-want +got):\n%s", number, diff)
			}
		}
	}
}

func TestALinkMayBeMadeAnewAtAnyTime(t *testing.T) {
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
			_, _ = n.apply(input(peer(1))) // it may fail, and may not
			if !done {
				break
			}
			if diff := cmp.Diff(want, n.must(t, input(peer(1)))); diff != "" {
				t.Fatalf("%s was made anew after call %d (-want +got):\n%s", link, number, diff)
			}
		}
	}
}

func TestAPeerThatMovedIsLeftWhereItIs(t *testing.T) {
	n := newNode()
	n.must(t, input(peer(1)))
	elsewhere := netip.MustParseAddrPort("172.31.0.1:1234")
	n.inner.HearFrom(model.TunnelLink, model.PublicKey{1}, elsewhere)
	if !strings.Contains(n.must(t, input(peer(1))), elsewhere.String()) {
		t.Error("the peer was called back")
	}
	longer := peer(1)
	longer.Remote = append(longer.Remote, prefix("10.200.0.0/16"))
	if !strings.Contains(n.must(t, input(longer)), elsewhere.String()) {
		t.Error("the peer was called back when it got one more CIDR")
	}
	moved := peer(1)
	moved.Endpoint = netip.MustParseAddrPort("172.16.0.99:51820")
	if !strings.Contains(n.must(t, input(moved)), moved.Endpoint.String()) {
		t.Error("the new endpoint was not set")
	}
}
