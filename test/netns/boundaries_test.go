// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"testing"
	"time"

	"liqo.io/federation/test/netns/world"
)

// unreachable is the time in which a connection that must fail is not established.
const unreachable = time.Second

// kube-proxy forwards connections to node ports of all addresses of a node before the chain INPUT. Peers must not reach
// them by the address in the pod CIDRs that a CNI assigns to the node.
func TestPeersDoNotReachNodePorts(t *testing.T) {
	for _, test := range []struct {
		name, iptables string
		proxies        proxies
	}{
		{"iptables mode, nft", "nft", proxiesByIPTables("nft")},
		{"iptables mode, legacy", "legacy", proxiesByIPTables("legacy")},
		{"nftables mode, nft", "nft", proxiesByNFTables},
		{"nftables mode, legacy", "legacy", proxiesByNFTables},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFabric(t, test.iptables)
			for i, n := range w.Rome.Nodes {
				serve(t, n.Pod)
				for _, direction := range []string{"-o", "-i"} {
					run(t, n.NS, fmt.Sprintf("iptables-%s -I FORWARD 1 %s cni0 -j ACCEPT", test.iptables, direction))
				}
				test.proxies(t, n, world.Addr(fmt.Sprintf("10.0.%d.2", i+1)))
			}
			w.apply(t)
			w.unchanged(t)
			stranger := w.stranger(t)
			for i, n := range w.Rome.Nodes {
				at := world.Addr(fmt.Sprintf("10.2.%d.1", i+1))
				if _, err := call(stranger, n.V4, 16, exchangeTimeout); err != nil {
					t.Errorf("a client of the node port on %s: %v", n.Name, err)
				}
				if _, err := datagram(stranger, n.V4, 16, exchangeTimeout); err != nil {
					t.Errorf("a client of the UDP node port on %s: %v", n.Name, err)
				}
				local := world.Addr(fmt.Sprintf("10.0.%d.1", i+1))
				ip(t, stranger, fmt.Sprintf("route replace %s via %s", local, n.V4))
				if _, err := call(stranger, local, 16, exchangeTimeout); err != nil {
					t.Errorf("a client of the node port at the CNI's address of %s: %v", n.Name, err)
				}
				for _, from := range w.Milan.Nodes {
					if saw, err := call(from.Pod, at, 16, unreachable); err == nil {
						t.Errorf("the pod on %s reached a node port on %s, with the source address %s", from.Name, n.Name, saw)
					}
					if saw, err := datagram(from.Pod, at, 16, unreachable); err == nil {
						t.Errorf("the pod on %s reached a UDP node port on %s, with the source address %s", from.Name, n.Name, saw)
					}
				}
			}
			w.teardown(t)
		})
	}
}

// Nodes forward packets, and give those to peers their own address. Other machines must not use that to reach peers.
func TestNeighboursOfANodeReachPeersThroughServicesOnly(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			for _, n := range w.Milan.Nodes {
				serve(t, n.Pod)
			}
			w.apply(t)
			stranger := w.stranger(t)
			pod := world.Addr("10.1.1.2")
			for _, n := range w.Rome.Nodes {
				ip(t, stranger, fmt.Sprintf("route replace %s via %s", pod, n.V4))
				if saw, err := call(stranger, pod, 16, unreachable); err == nil {
					t.Errorf("a machine reached a pod of the peer through %s, with the source address %s", n.Name, saw)
				}
				run(t, n.NS, fmt.Sprintf("iptables-%s -t nat -A PREROUTING -d %s -p tcp --dport %d -j DNAT --to-destination %s",
					iptables, n.V4, port, pod))
				if _, err := call(stranger, n.V4, 16, exchangeTimeout); err != nil {
					t.Errorf("a client of a Service on %s, whose pod is on the peer: %v", n.Name, err)
				}
			}
			w.unchanged(t)
			w.teardown(t)
		})
	}
}
