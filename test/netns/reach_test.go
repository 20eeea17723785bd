// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// With reach Offloaded, milan reaches the pod on rome-2 and not the one on rome-1, whose connections to milan work.
func TestPeersReachOffloadedPodsOnly(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			for _, n := range w.Nodes() {
				serve(t, n.Pod)
				serve(t, n.NS)
			}
			peer := &w.Rome.Input.Peers[0]
			peer.Offloaded = true
			peer.Reachable = []netip.Addr{world.Addr("10.0.2.2"), world.Addr("fd10:0:2::2")}
			w.apply(t)
			w.unchanged(t)

			w.milanReaches(t, 2)
			w.milanDoesNotReach(t, 1)
			w.mappedAddressesAreReached(t)
			w.repliesReachClients(t)
			w.nodesReachPodsOfMilan(t)
			w.gatewayAnswersProbesOnly(t)

			// Most of the addresses are in trees of chains.
			for i := range 300 {
				peer.Reachable = append(peer.Reachable, world.Addr(fmt.Sprintf("10.0.%d.%d", 3+i/100, 2+i%100)),
					world.Addr(fmt.Sprintf("fd10:0:%x::%x", 3+i/100, 2+i%100)))
			}
			w.apply(t)
			w.unchanged(t)
			w.milanReaches(t, 2)
			w.milanDoesNotReach(t, 1)

			peer.Reachable = []netip.Addr{world.Addr("10.0.1.2"), world.Addr("fd10:0:1::2")}
			w.apply(t)
			w.unchanged(t)
			w.milanReaches(t, 1)
			w.milanDoesNotReach(t, 2)

			peer.Offloaded = false
			w.apply(t)
			w.podsReachPods(t)
			w.teardown(t)
		})
	}
}

// addressesOnMilan returns the addresses by which milan reaches the pod on a node of rome.
func addressesOnMilan(node int) []netip.Addr {
	return []netip.Addr{world.Addr(fmt.Sprintf("10.2.%d.2", node)), world.Addr(fmt.Sprintf("fd11:0:%d::2", node))}
}

func (w *fabric) milanReaches(t *testing.T, node int) {
	t.Helper()
	for i, from := range w.Milan.Nodes {
		what := fmt.Sprintf("from the pod on %s to the one on rome-%d", from.Name, node)
		to := addressesOnMilan(node)
		exchange(t, what, from.Pod, to[0], world.Addr(fmt.Sprintf("10.1.%d.2", i+1)))
		exchange(t, what, from.Pod, to[1], world.Addr(fmt.Sprintf("fd11:0:%d::2", i+1)))
	}
}

func (w *fabric) milanDoesNotReach(t *testing.T, node int) {
	t.Helper()
	for what, from := range map[string]*kernel.Namespace{
		"a node": w.Milan.Nodes[0].NS, "the pod on a gateway's node": w.Milan.Nodes[0].Pod, "a pod": w.Milan.Nodes[1].Pod,
	} {
		for _, to := range addressesOnMilan(node) {
			if saw, err := call(from, to, 16, unreachable); err == nil {
				t.Errorf("%s reached the pod on rome-%d at %s, with the source address %s", what, node, to, saw)
			}
			if saw, err := datagram(from, to, 16, 400*time.Millisecond); err == nil {
				t.Errorf("%s reached UDP of the pod on rome-%d at %s, with the source address %s", what, node, to, saw)
			}
		}
	}
}

// repliesReachClients checks connections from all pods of rome, most of which milan does not reach.
func (w *fabric) repliesReachClients(t *testing.T) {
	t.Helper()
	for i, from := range w.Rome.Nodes {
		for j := range w.Milan.Nodes {
			what := fmt.Sprintf("from the pod on %s to the one on milan-%d", from.Name, j+1)
			exchange(t, what, from.Pod, world.Addr(fmt.Sprintf("10.1.%d.2", j+1)), world.Addr(fmt.Sprintf("10.2.%d.2", i+1)))
			exchange(t, what, from.Pod, world.Addr(fmt.Sprintf("fd11:0:%d::2", j+1)),
				world.Addr(fmt.Sprintf("fd11:0:%d::2", i+1)))
		}
	}
}

func (w *fabric) nodesReachPodsOfMilan(t *testing.T) {
	t.Helper()
	for _, from := range w.Rome.Nodes {
		exchange(t, "from "+from.Name+" itself", from.NS, world.Addr("10.1.2.2"), world.Addr("10.2.0.0"))
		exchange(t, "from "+from.Name+" itself", from.NS, world.Addr("fd11:0:2::2"), world.Addr("fd11::"))
	}
}

// gatewayAnswersProbesOnly checks that milan's gateway reaches the port of probes of rome's gateway, and no other port.
func (w *fabric) gatewayAnswersProbesOnly(t *testing.T) {
	t.Helper()
	serve(t, w.Rome.Nodes[0].Inner)
	probes := hold(t, w.Rome.Nodes[0].Inner, model.EchoPort)
	go echo(probes)
	defer probes.Close()
	for _, to := range []netip.Addr{world.Addr("10.2.0.0"), world.Addr("fd11::")} {
		var conn net.Conn
		if err := w.Milan.Nodes[0].Inner.Do(func() (err error) {
			conn, err = net.Dial("udp", netip.AddrPortFrom(to, model.EchoPort).String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := exchangeDatagram(conn, 16, exchangeTimeout); err != nil {
			t.Errorf("a probe: %v", err)
		}
		conn.Close()
		if _, err := datagram(w.Milan.Nodes[0].Inner, to, 16, unreachable); err == nil {
			t.Errorf("another port of the gateway was reached at %s", to)
		}
	}
}
