// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"liqo.io/federation/netagent/model"
)

// Three clusters whose pods have the same addresses, with tunnels from rome to
// the two others and none between these. The pods of each call those of the
// other that rome has given an address, and no others.
func TestPodsOfTwoProvidersTalkThroughTheirConsumer(t *testing.T) {
	w := newWorld(t, "nft")
	naples := w.addNaples(t)
	for _, n := range append(w.milan.nodes, naples.nodes...) {
		serve(t, n.pod)
	}
	w.apply(t)
	w.unchanged(t)

	// Rome sees milan's pods in 10.1 and naples' in 10.3. Milan sees rome's in
	// 10.2, naples in 10.4, and their first addresses stand for rome's gateway.
	for i, from := range naples.nodes {
		exchange(t, "from the pod on "+from.name+" to the one on milan-2", from.pod, addr("10.91.0.12"), addr("10.2.0.0"))
		exchange(t, "from the pod on "+from.name+" to the one on milan-2", from.pod, addr("fd91::12"), addr("fd11::"))
		exchange(t, fmt.Sprintf("from the pod on milan-%d to the one on naples-1", i+1), w.milan.nodes[i].pod, addr("10.80.0.31"), addr("10.4.0.0"))
	}
	for _, to := range []netip.Addr{
		// Rome gave nobody these addresses, and those of milan's pods that rome knows
		// mean nothing to naples.
		addr("10.91.0.11"), addr("10.91.0.31"), addr("10.1.2.2"),
	} {
		if saw, err := call(naples.nodes[0].pod, to, 16, time.Second); err == nil {
			t.Errorf("%s was reached, by %s", to, saw)
		}
	}
	w.rome.input.Peers[1].Mappings = nil
	w.apply(t)
	if saw, err := call(naples.nodes[0].pod, addr("10.91.0.12"), 16, time.Second); err == nil {
		t.Errorf("what is mapped no more was reached, by %s", saw)
	}
	w.teardown(t)
}

// A Service of the gateway's cluster is called by a mapping of its ClusterIP,
// which the gateway's node translates, wherever what is behind it is.
func TestAServiceIsCalledByItsMapping(t *testing.T) {
	w := newWorld(t, "nft")
	gateway := w.rome.nodes[0].ns
	for i, n := range w.rome.nodes {
		serve(t, n.ns)
		for _, protocol := range []string{"tcp", "udp"} {
			run(t, gateway, fmt.Sprintf("iptables-nft -t nat -A PREROUTING -d 10.96.0.%d -p %s --dport %d -j DNAT --to-destination %s", i+1, protocol, port, n.v4))
		}
		w.rome.input.Peers[0].Mappings = append(w.rome.input.Peers[0].Mappings, model.Mapping{
			Seen: addr(fmt.Sprintf("10.80.0.%d", 101+i)), Target: addr(fmt.Sprintf("10.96.0.%d", i+1)),
		})
	}
	w.apply(t)
	for i, from := range w.milan.nodes {
		for j, behind := range w.rome.nodes {
			what := fmt.Sprintf("from the pod on %s to the Service on %s", from.name, behind.name)
			exchange(t, what, from.pod, addr(fmt.Sprintf("10.80.0.%d", 101+j)), addr(fmt.Sprintf("10.1.%d.2", i+1)))
		}
	}
	w.teardown(t)
}

// addNaples adds a third cluster, which has a tunnel to rome.
func (w *world) addNaples(t *testing.T) *cluster {
	t.Helper()
	key, public := keys(t)
	naples := w.cluster(t, "naples", 3, "nft", key)
	w.others = append(w.others, naples)
	w.rome.input.Peers = append(w.rome.input.Peers, model.Peer{
		ClusterID: "naples", PublicKey: public, Endpoint: netip.AddrPortFrom(naples.nodes[0].v4, 51820), MTU: 1400,
		Local:  []model.Remap{{Own: prefix("10.0.0.0/16"), Seen: prefix("10.4.0.0/16")}, {Own: prefix("fd10::/32"), Seen: prefix("fd14::/32")}},
		Remote: []netip.Prefix{prefix("10.3.0.0/16"), prefix("fd13::/32")},
		Mappings: []model.Mapping{
			{Seen: addr("10.91.0.12"), Target: addr("10.1.2.2")}, {Seen: addr("fd91::12"), Target: addr("fd11:0:2::2")},
		},
	})
	w.rome.input.Peers[0].Mappings = append(w.rome.input.Peers[0].Mappings, model.Mapping{Seen: addr("10.80.0.31"), Target: addr("10.3.1.2")})
	toMilan := w.milan.input.Peers[0]
	naples.input.Peers = []model.Peer{{
		ClusterID: "rome", PublicKey: toMilan.PublicKey, Endpoint: toMilan.Endpoint, MTU: 1400,
		Local: []model.Remap{{Own: prefix("10.0.0.0/16"), Seen: prefix("10.3.0.0/16")}, {Own: prefix("fd10::/32"), Seen: prefix("fd13::/32")}},
		// 10.91 and fd91 hold what rome maps.
		Remote: []netip.Prefix{prefix("10.4.0.0/16"), prefix("fd14::/32"), prefix("10.91.0.0/24"), prefix("fd91::/112")},
	}}
	return naples
}
