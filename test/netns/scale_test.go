// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// With many rules, the model writes trees of chains. iptables must print them in the same form, so that they
// are not written again.
func TestHundredsOfPeersAreWrittenOnceAndDeletedCompletely(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			before := w.snapshot(t)
			w.Rome.Input.Peers = append(w.Rome.Input.Peers, manyPeers(300, 500)...)
			if w.apply(t) == 0 {
				t.Fatal("nothing was written")
			}
			w.unchanged(t)
			for _, n := range w.Milan.Nodes {
				serve(t, n.Pod)
			}
			if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 1, exchangeTimeout); err != nil {
				t.Error(err)
			}
			w.Rome.Input.Peers = w.Rome.Input.Peers[:20]
			w.apply(t)
			w.unchanged(t)
			w.teardown(t)
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

// manyPeers returns peers that may reach all pods of rome. The first peer also has AddressMappings.
func manyPeers(peers, mappings int) []model.Peer {
	var all []model.Peer
	for i := range peers {
		p := model.Peer{
			ClusterID: fmt.Sprintf("cluster-%d", i),
			Local: []netmap.CIDRMapping{
				{CIDR: world.Prefix("10.0.0.0/16"), Mapped: world.Prefix("10.0.0.0/16")},
				{CIDR: world.Prefix("fd10::/32"), Mapped: world.Prefix("fd10::/32")},
			},
			Remote: []netip.Prefix{
				netip.PrefixFrom(v4(11<<24|uint32(i)<<8), 24),
				netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x20, byte(i >> 8), byte(i)}), 32),
			},
		}
		binary.BigEndian.PutUint32(p.PublicKey[:], uint32(i+1))
		if i == 0 {
			for j := range mappings {
				p.Mappings = append(
					p.Mappings,
					model.Mapping{Seen: v4(10<<24 | 80<<16 | uint32(j)), Target: v4(172<<24 | 17<<16 | uint32(j))},
				)
			}
		}
		all = append(all, p)
	}
	return all
}

func v4(n uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], n)
	return netip.AddrFrom4(a)
}
