// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// Three clusters have the same CIDRs, and rome has tunnels to the other two. Pods of those two reach each
// other only by AddressMappings of rome.
func TestPodsOfTwoProvidersReachEachOtherThroughTheirConsumer(t *testing.T) {
	w := newFabric(t, "nft")
	naples := w.addNaples(t)
	for _, n := range append(w.Milan.Nodes, naples.Nodes...) {
		serve(t, n.Pod)
	}
	w.apply(t)
	w.unchanged(t)

	// Addresses: on rome, milan's pods are in 10.1 and naples' pods in 10.3; rome's pods are in 10.2 on milan and
	// in 10.4 on naples. There the first address of the range represents rome's gateway.
	for i, from := range naples.Nodes {
		exchange(
			t,
			"from the pod on "+from.Name+" to the one on milan-2",
			from.Pod,
			world.Addr("10.91.0.12"),
			world.Addr("10.2.0.0"),
		)
		exchange(
			t,
			"from the pod on "+from.Name+" to the one on milan-2",
			from.Pod,
			world.Addr("fd91::12"),
			world.Addr("fd11::"),
		)
		exchange(
			t,
			fmt.Sprintf("from the pod on milan-%d to the one on naples-1", i+1),
			w.Milan.Nodes[i].Pod,
			world.Addr("10.80.0.31"),
			world.Addr("10.4.0.0"),
		)
	}
	for _, to := range []netip.Addr{
		// Packets to these addresses must be dropped: rome has no mapping for some of them, and the others are
		// addresses of milan's pods on rome, which are not valid on naples.
		world.Addr("10.91.0.11"), world.Addr("10.91.0.31"), world.Addr("10.1.2.2"),
	} {
		if saw, err := call(naples.Nodes[0].Pod, to, 16, time.Second); err == nil {
			t.Errorf("%s was reached, by %s", to, saw)
		}
	}
	w.Rome.Input.Peers[1].Mappings = nil
	w.apply(t)
	if saw, err := call(naples.Nodes[0].Pod, world.Addr("10.91.0.12"), 16, time.Second); err == nil {
		t.Errorf("an address without a mapping was reached, with the source address %s", saw)
	}
	w.teardown(t)
}

// A Service of the gateway's cluster is reachable by an AddressMapping of its ClusterIP. The gateway's node
// translates the ClusterIP to any endpoint of the Service.
func TestServiceIsReachableByItsMapping(t *testing.T) {
	w := newFabric(t, "nft")
	gateway := w.Rome.Nodes[0].NS
	for i, n := range w.Rome.Nodes {
		serve(t, n.NS)
		for _, protocol := range []string{"tcp", "udp"} {
			run(
				t,
				gateway,
				fmt.Sprintf(
					"iptables-nft -t nat -A PREROUTING -d 10.96.0.%d -p %s --dport %d -j DNAT --to-destination %s",
					i+1,
					protocol,
					port,
					n.V4,
				),
			)
		}
		w.Rome.Input.Peers[0].Mappings = append(w.Rome.Input.Peers[0].Mappings, model.Mapping{
			Seen: world.Addr(fmt.Sprintf("10.80.0.%d", 101+i)), Target: world.Addr(fmt.Sprintf("10.96.0.%d", i+1)),
		})
	}
	w.apply(t)
	for i, from := range w.Milan.Nodes {
		for j, behind := range w.Rome.Nodes {
			what := fmt.Sprintf("from the pod on %s to the Service on %s", from.Name, behind.Name)
			exchange(t, what, from.Pod, world.Addr(fmt.Sprintf("10.80.0.%d", 101+j)), world.Addr(fmt.Sprintf("10.1.%d.2", i+1)))
		}
	}

	mappings, seen := w.Rome.Input.Peers[0].Mappings, world.Addr("10.80.0.101")
	bound := slices.IndexFunc(mappings, func(m model.Mapping) bool { return m.Seen == seen })
	mappings[bound].Ports = []model.Port{{Protocol: "udp", Number: port + 1}, {Protocol: "tcp", Number: port}}
	w.apply(t)
	w.unchanged(t)
	from := w.Milan.Nodes[1].Pod
	if _, err := call(from, seen, 1, exchangeTimeout); err != nil {
		t.Errorf("the port that a mapping is bound to: %v", err)
	}
	if got, err := datagram(from, seen, 1, time.Second); err == nil {
		t.Errorf("%s answers at a port that it is not bound to", got)
	}
	w.teardown(t)
}

// addNaples adds a third cluster, which has a tunnel to rome.
func (w *fabric) addNaples(t *testing.T) *world.Cluster {
	t.Helper()
	naples, public := w.addCluster(t, "naples")
	w.Rome.Input.Peers = append(w.Rome.Input.Peers, model.Peer{
		ClusterID: "naples", PublicKey: public, Endpoint: netip.AddrPortFrom(naples.Nodes[0].V4, 51820), MTU: 1400,
		Local: []netmap.CIDRMapping{
			{CIDR: world.Prefix("10.0.0.0/16"), Mapped: world.Prefix("10.4.0.0/16")},
			{CIDR: world.Prefix("fd10::/32"), Mapped: world.Prefix("fd14::/32")},
		},
		Remote: []netip.Prefix{world.Prefix("10.3.0.0/16"), world.Prefix("fd13::/32")},
		Mappings: []model.Mapping{
			{
				Seen:   world.Addr("10.91.0.12"),
				Target: world.Addr("10.1.2.2"),
			}, {Seen: world.Addr("fd91::12"), Target: world.Addr("fd11:0:2::2")},
		},
	})
	w.Rome.Input.Peers[0].Mappings = append(
		w.Rome.Input.Peers[0].Mappings,
		model.Mapping{Seen: world.Addr("10.80.0.31"), Target: world.Addr("10.3.1.2")},
	)
	toMilan := w.Milan.Input.Peers[0]
	naples.Input.Peers = []model.Peer{{
		ClusterID: "rome", PublicKey: toMilan.PublicKey, Endpoint: toMilan.Endpoint, MTU: 1400,
		Local: []netmap.CIDRMapping{
			{CIDR: world.Prefix("10.0.0.0/16"), Mapped: world.Prefix("10.3.0.0/16")},
			{CIDR: world.Prefix("fd10::/32"), Mapped: world.Prefix("fd13::/32")},
		},
		// 10.91 and fd91 are the ranges of rome's AddressMappings.
		Remote: []netip.Prefix{
			world.Prefix("10.4.0.0/16"),
			world.Prefix("fd14::/32"),
			world.Prefix("10.91.0.0/24"),
			world.Prefix("fd91::/112"),
		},
	}}
	return naples
}
