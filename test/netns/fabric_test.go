// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

func TestTwoClustersWithTheSameAddressesTalk(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newWorld(t, iptables)
			for _, n := range append(w.rome.nodes, w.milan.nodes...) {
				serve(t, n.pod)
				serve(t, n.ns)
			}
			w.addGateway(t, w.rome.nodes[1], iptables) // stands by, once it is told to
			before := w.snapshot(t)
			if w.apply(t) == 0 {
				t.Fatal("nothing was written")
			}
			t.Logf("WireGuard's work is done by: %s", w.rome.nodes[0].inner.Implementation(model.TunnelLink))
			w.unchanged(t)

			w.podsReachPods(t)
			w.nodesReachPods(t)
			w.mappedAddressesAreReached(t)
			w.whatWasNotToldIsNotReached(t)
			w.unchanged(t)
			w.whatIsBrokenByHandIsMended(t)
			w.anotherGatewayTakesOver(t)

			w.teardown(t)
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

// unchanged applies again: nothing is written, and everything is as it was.
func (w *world) unchanged(t *testing.T) {
	t.Helper()
	before := w.snapshot(t)
	if writes := w.apply(t); writes != 0 {
		t.Errorf("a second pass wrote %d times", writes)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("a second pass changed (-before +after):\n%s", diff)
	}
}

// sides calls f for both directions, with what the server's cluster sees of
// the client's pods and the other way round.
func (w *world) sides(f func(client, server *cluster, serverSeen, clientSeen int)) {
	f(w.rome, w.milan, 1, 2)
	f(w.milan, w.rome, 2, 1)
}

func (w *world) podsReachPods(t *testing.T) {
	t.Helper()
	w.sides(func(client, server *cluster, serverSeen, clientSeen int) {
		for i, from := range client.nodes {
			for j := range server.nodes {
				what := fmt.Sprintf("from the pod on %s to the one on %s", from.name, server.nodes[j].name)
				exchange(t, what, from.pod, addr(fmt.Sprintf("10.%d.%d.2", serverSeen, j+1)), addr(fmt.Sprintf("10.%d.%d.2", clientSeen, i+1)))
				exchange(t, what, from.pod, addr(fmt.Sprintf("fd11:0:%d::2", j+1)), addr(fmt.Sprintf("fd11:0:%d::2", i+1)))
			}
		}
	})
}

func (w *world) nodesReachPods(t *testing.T) {
	t.Helper()
	w.sides(func(client, server *cluster, serverSeen, clientSeen int) {
		for _, from := range client.nodes {
			for j := range server.nodes {
				what := fmt.Sprintf("from %s itself to the pod on %s", from.name, server.nodes[j].name)
				exchange(t, what, from.ns, addr(fmt.Sprintf("10.%d.%d.2", serverSeen, j+1)), addr(fmt.Sprintf("10.%d.0.0", clientSeen)))
				exchange(t, what, from.ns, addr(fmt.Sprintf("fd11:0:%d::2", j+1)), addr("fd11::"))
			}
		}
	})
}

// A node of rome, which is no pod, is called by an address that rome gave it.
func (w *world) mappedAddressesAreReached(t *testing.T) {
	t.Helper()
	for i, from := range w.milan.nodes {
		exchange(t, "from the pod on "+from.name+" to rome-2 by its mapping", from.pod, addr("10.80.0.1"), addr(fmt.Sprintf("10.1.%d.2", i+1)))
	}
}

// Whatever milan believes that it may call, rome decides.
func (w *world) whatWasNotToldIsNotReached(t *testing.T) {
	t.Helper()
	ip(t, w.rome.nodes[0].ns, "addr add 10.66.0.1/32 dev lo")
	defer ip(t, w.rome.nodes[0].ns, "addr del 10.66.0.1/32 dev lo")
	pod := w.milan.nodes[0].pod
	for _, to := range []netip.Addr{
		addr("10.66.0.1"), addr("10.80.0.9"),
		// The nodes themselves, by their addresses among the pods.
		addr("10.2.1.1"), addr("10.2.2.1"), addr("fd11:0:1::1"), addr("fd11:0:2::1"),
	} {
		if saw, err := call(pod, to, 16, time.Second); err == nil {
			t.Errorf("%s was reached, by %s", to, saw)
		}
	}
	// The same address, once rome maps it.
	peer := w.rome.input.Peers[0]
	mappings := peer.Mappings
	peer.Mappings = append([]model.Mapping{{Seen: addr("10.66.0.1"), Target: addr("10.66.0.1")}}, mappings...)
	w.rome.input.Peers[0] = peer
	w.apply(t)
	if _, err := call(pod, addr("10.66.0.1"), 16, patience); err != nil {
		t.Error(err)
	}
	w.rome.input.Peers[0].Mappings = mappings
	w.apply(t)
}

func (w *world) whatIsBrokenByHandIsMended(t *testing.T) {
	t.Helper()
	gateway, worker := w.rome.nodes[0], w.rome.nodes[1]
	for _, breakage := range []struct {
		what string
		do   func()
	}{
		{"the overlay is deleted", func() { ip(t, worker.ns, "link del liqo.vxlan") }},
		{"the pair is deleted", func() { ip(t, gateway.ns, "link del liqo.host") }},
		{"the other end of the pair is deleted", func() { ip(t, gateway.inner, "link del liqo.gateway") }},
		{"the tunnel is down", func() { ip(t, gateway.inner, "link set liqo.wg down") }},
		{"the tunnel is deleted", func() {
			if err := gateway.inner.DeleteLink(model.TunnelLink); err != nil {
				t.Error(err)
			}
		}},
		{"the rules are gone", func() { ip(t, worker.ns, "rule del priority 480") }},
		{"the routes are gone", func() { ip(t, worker.ns, "route flush table 5872") }},
		{"the chains are gone", func() { w.flush(t, gateway.inner, gateway.ns) }},
	} {
		breakage.do()
		if w.apply(t) == 0 {
			t.Errorf("%s, and nothing was written", breakage.what)
		}
		if writes := w.apply(t); writes != 0 {
			t.Errorf("%s, and the pass after the one that mended it wrote %d times", breakage.what, writes)
		}
		if _, err := datagram(worker.pod, addr("10.1.2.2"), 8000, patience); err != nil {
			t.Errorf("after %s: %v", breakage.what, err)
		}
		if _, err := datagram(w.milan.nodes[1].pod, addr("10.2.2.2"), 8000, patience); err != nil {
			t.Errorf("after %s, the other way: %v", breakage.what, err)
		}
	}
}

// Packets go through the other node's gateway as soon as it is the active one,
// and milan follows without being told.
func (w *world) anotherGatewayTakesOver(t *testing.T) {
	t.Helper()
	w.rome.input.Gateways = []string{"rome-1", "rome-2"}
	w.apply(t)
	w.unchanged(t)
	for _, active := range []string{"rome-2", "rome-1", "rome-2"} {
		w.rome.input.Active = active
		w.apply(t)
		switched := time.Now()
		if _, err := datagram(w.milan.nodes[1].pod, addr("10.2.1.2"), 1, patience); err != nil {
			t.Errorf("through %s, without a word from rome: %v", active, err)
		}
		t.Logf("%s was found by milan after %s", active, time.Since(switched).Round(time.Millisecond))
		for i, from := range w.rome.nodes {
			exchange(t, "through "+active+", from the pod on "+from.name, from.pod, addr("10.1.2.2"), addr(fmt.Sprintf("10.2.%d.2", i+1)))
			exchange(t, "through "+active+", from the pod on "+from.name, from.pod, addr("fd11:0:2::2"), addr(fmt.Sprintf("fd11:0:%d::2", i+1)))
			exchange(t, "through "+active+", to the pod on "+from.name, w.milan.nodes[1].pod, addr(fmt.Sprintf("10.2.%d.2", i+1)), addr("10.1.2.2"))
		}
		w.unchanged(t)
	}
}

// flush empties the chains of a namespace that are ours, with its own tools.
func (w *world) flush(t *testing.T, inner, node *kernel.Namespace) {
	t.Helper()
	backend, err := node.Backend()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(run(t, inner, "iptables-"+backend+"-save -t nat")) {
		if name, ok := strings.CutPrefix(line, ":"+model.ChainPrefix); ok {
			run(t, inner, "iptables-"+backend+" -t nat -F "+model.ChainPrefix+strings.Fields(name)[0])
		}
	}
}
