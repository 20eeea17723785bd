// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/model"
)

// The last of several states is applied exactly, whatever the previous states are, whichever calls fail, and
// whichever links are recreated.
func TestEveryHistoryConvergesToTheState(t *testing.T) {
	links := []string{model.OverlayLink, model.HostLink, model.GatewayLink, model.TunnelLink}
	anyInput := func(t *rapid.T) model.Input {
		var peers []model.Peer
		for n := byte(1); n <= 4; n++ {
			if rapid.Bool().Draw(t, "has peer") {
				p := peer(n)
				p.MTU = rapid.SampledFrom([]int{0, 1300, 1400}).Draw(t, "MTU")
				peers = append(peers, p)
			}
		}
		in := input(peers...)
		in.Gateways = []string{"rome-1", "rome-2"}
		in.Active = rapid.SampledFrom(in.Gateways).Draw(t, "active")
		in.Port = rapid.IntRange(51820, 51822).Draw(t, "port")
		return in
	}
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		for range rapid.IntRange(0, 4).Draw(t, "passes") {
			calls, failing := 0, rapid.IntRange(1, 80).Draw(t, "failing call")
			fail := func(int) error {
				if calls++; calls == failing {
					return errors.New("no luck")
				}
				return nil
			}
			n.outer.Fail, n.inner.Fail = fail, fail
			_, _ = n.apply(anyInput(t)) // an error is possible, but not required
			n.outer.Fail, n.inner.Fail = nil, nil
			if rapid.Bool().Draw(t, "a link is recreated") {
				link := rapid.SampledFrom(links).Draw(t, "link")
				n.outer.Recreate(link)
				n.inner.Recreate(link)
			}
		}
		want, fresh := anyInput(t), newNode()
		for _, at := range []*node{n, fresh} {
			if _, err := at.apply(want); err != nil {
				t.Fatal(err)
			}
			if writes, err := at.apply(want); writes != 0 || err != nil {
				t.Fatalf("applying again made %d writes: %v", writes, err)
			}
		}
		if diff := cmp.Diff(fresh.dump(), n.dump()); diff != "" {
			t.Fatalf("(-fresh +after its history):\n%s", diff)
		}
	})
}

// Whichever peers are added and deleted, and whichever chains are flushed, only connections with a current or a
// previous peer are flushed.
func TestOnlyConnectionsWithPeersAreFlushed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		var ranges []netip.Prefix
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			var peers []model.Peer
			for number := byte(1); number <= 3; number++ {
				if rapid.Bool().Draw(t, "has peer") {
					p := peer(number)
					p.Local[0].Mapped = rapid.SampledFrom(
						[]netip.Prefix{prefix("10.2.0.0/16"), prefix("10.3.0.0/16"), p.Local[0].CIDR},
					).
						Draw(t, "called")
					for host := range byte(rapid.IntRange(0, 80).Draw(t, "mappings")) {
						p.Mappings = append(
							p.Mappings,
							model.Mapping{
								Seen:   netip.AddrFrom4([4]byte{10, 70, number, host}),
								Target: netip.AddrFrom4([4]byte{172, 20, number, host}),
							},
						)
					}
					peers = append(peers, p)
					ranges = append(ranges, p.Remote...)
				}
			}
			in := input(peers...)
			if rapid.Bool().Draw(t, "other pods") {
				in.PodCIDRs[0] = prefix("10.9.0.0/16")
				in.Nodes[0].PodCIDRs, in.Nodes[1].PodCIDRs = nil, nil
				for i := range in.Peers {
					in.Peers[i].Local[0] = netmap.CIDRMapping{CIDR: in.PodCIDRs[0], Mapped: in.PodCIDRs[0]}
				}
			}
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				err = n.teardown()
			case 1:
				n.outer.Flush(model.IPv4, model.NATTable)
				n.inner.Flush(model.IPv4, model.NATTable)
			}
			if _, failed := n.apply(in); failed != nil || err != nil {
				t.Fatal(failed, err)
			}
		}
		for _, forgotten := range slices.Concat(n.outer.Flushed, n.inner.Flushed) {
			if len(forgotten.With) == 0 {
				t.Fatalf("%v is not limited to peers", forgotten)
			}
			for _, with := range forgotten.With {
				if !slices.Contains(ranges, with) {
					t.Fatalf("%v involves a range that was never a peer's", forgotten)
				}
			}
		}
	})
}
