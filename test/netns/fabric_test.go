// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

func TestClustersWithTheSameAddressesReachEachOther(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			for _, n := range w.Nodes() {
				serve(t, n.Pod)
				serve(t, n.NS)
			}
			w.addGateway(t, w.Rome.Nodes[1]) // standby after it is configured
			before := w.snapshot(t)
			if w.apply(t) == 0 {
				t.Fatal("nothing was written")
			}
			t.Logf("WireGuard's work is done by: %s", w.Rome.Nodes[0].Inner.Implementation(model.TunnelLink))
			w.unchanged(t)

			w.podsReachPods(t)
			w.nodesReachPods(t)
			w.mappedAddressesAreReached(t)
			w.unannouncedAddressesAreUnreachable(t)
			w.onlyGatewaysReachEachOther(t)
			w.unchanged(t)
			w.manualChangesAreRepaired(t)
			w.anotherGatewayTakesOver(t)

			w.teardown(t)
			if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

// Rome's pods are remapped to another range on milan. This must also affect sockets in use, although the
// kernel decides on a translation only for the first packet of a connection.
func TestChangedRemappingAppliesToOpenSockets(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			serve(t, w.Milan.Nodes[1].Pod)
			w.apply(t)
			conn, err := dial(w.Rome.Nodes[1].Pod, "udp", world.Addr("10.1.2.2"), exchangeTimeout)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sees := func(want string) {
				t.Helper()
				if saw, err := exchangeDatagram(conn, 1, exchangeTimeout); err != nil || saw != want {
					t.Errorf("milan saw %q, not %s: %v", saw, want, err)
				}
			}
			sees("10.2.2.2")
			w.Rome.Input.Peers[0].Local[0].Mapped = world.Prefix("10.5.0.0/16")
			w.Milan.Input.Peers[0].Remote[0] = world.Prefix("10.5.0.0/16")
			w.apply(t)
			sees("10.5.2.2")
			w.unchanged(t)
		})
	}
}

// On a path that drops ICMP, pods cannot discover the MTU. Connections must work nevertheless, because
// gateways clamp the MSS.
func TestConnectionsPassWithoutICMP(t *testing.T) {
	w := newFabric(t, "nft")
	for _, n := range w.Nodes() {
		serve(t, n.Pod)
		run(t, n.Pod, "iptables-nft -A INPUT -p icmp --icmp-type fragmentation-needed -j DROP")
		run(t, n.Pod, "ip6tables-nft -A INPUT -p icmpv6 --icmpv6-type packet-too-big -j DROP")
	}
	w.apply(t)
	transfers := func(timeout time.Duration, check func(what string, err error)) {
		t.Helper()
		w.sides(func(client, server *world.Cluster, serverSeen, _ int) {
			for _, to := range []string{fmt.Sprintf("10.%d.2.2", serverSeen), "fd11:0:2::2"} {
				_, err := call(client.Nodes[1].Pod, world.Addr(to), 1<<20, timeout)
				check(fmt.Sprintf("from %s to %s of %s", client.Nodes[1].Name, to, server.Name), err)
			}
		})
	}
	transfers(exchangeTimeout, func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	// Without MSS clamping, the same connections must fail. So no cached path MTU made them work before.
	for _, c := range w.Clusters() {
		for _, program := range []string{"iptables-nft", "ip6tables-nft"} {
			run(
				t,
				c.Nodes[0].Inner,
				program+" -t mangle -D LIQO-FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
			)
		}
	}
	transfers(2*time.Second, func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s a connection passes without the rule", what)
		}
	})
	if w.apply(t) == 0 {
		t.Error("the rule is missing, and nothing was written")
	}
	transfers(exchangeTimeout, func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s, once the rule is restored: %v", what, err)
		}
	})
}

// Connections of a node that do not involve a peer, for example to Services, must survive changes of tunnels
// and flushed chains.
func TestConnectionsWithoutAPeerSurviveChanges(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			n := w.Rome.Nodes[1]
			serve(t, n.NS)
			service := "PREROUTING -d 10.96.0.9 -j DNAT --to-destination 10.0.2.1"
			run(t, n.NS, "iptables-"+iptables+" -t nat -A "+service)
			conn, err := dial(n.Pod, "udp", world.Addr("10.96.0.9"), exchangeTimeout)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			continues := func(what string) {
				t.Helper()
				if _, err := exchangeDatagram(conn, 1, exchangeTimeout/5); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			continues("at first")
			// From here on, only the connection tracking entry translates the packets of the Service.
			run(t, n.NS, "iptables-"+iptables+" -t nat -D "+service)
			continues("without the Service")
			w.apply(t)
			continues("after the tunnel was created")
			w.flush(t, n.NS, n.NS)
			w.apply(t)
			continues("after the chains were flushed")
			w.teardown(t)
			continues("after everything was deleted")
			if _, err := datagram(n.Pod, world.Addr("10.96.0.9"), 1, time.Second); err == nil {
				t.Error("the Service still exists")
			}
		})
	}
}

// Follow fails while iptables cannot be run, because chains cannot be watched, and it must be retried.
func TestChainsAreWatchedOnceTheBackendIsDetected(t *testing.T) {
	w := newFabric(t, "nft")
	n := w.Rome.Nodes[1]
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	if err := n.NS.Follow(t.Context(), func() {}); err == nil {
		t.Error("without iptables chains are followed")
	}
	t.Setenv("PATH", path)
	w.apply(t)
	var changes atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.NS.Follow(ctx, func() { changes.Add(1) }) }()
	eventually(t, "flushed chains trigger a pass", func() bool {
		w.flush(t, n.NS, n.NS)
		w.apply(t)
		return changes.Load() > 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node without a required program, or with a port in use, is reported with a hint, and works when the cause
// is removed.
func TestMissingPrerequisitesOfANodeAreReported(t *testing.T) {
	w := newFabric(t, "nft")
	worker, gateway := w.Rome.Nodes[1], w.Rome.Nodes[0]
	in := w.Rome.Input
	expectErr := func(a *apply.Applier, s model.State, want string) {
		t.Helper()
		if _, err := a.Apply(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	in.Node = worker.Name
	route, _, err := model.RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	ip(t, worker.NS, fmt.Sprintf("link add foreign type vxlan id %d dstport %d", model.OverlayVNI, model.OverlayPort))
	expectErr(w.appliers[worker].route, route, "is used by link foreign")
	ip(t, worker.NS, "link del foreign")
	held := hold(t, worker.NS, model.OverlayPort)
	expectErr(w.appliers[worker].route, route, fmt.Sprintf("UDP port %d of this node is in use", model.OverlayPort))
	held.Close()

	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	expectErr(apply.New(w.Milan.Nodes[1].NS), route, "must contain iptables")
	t.Setenv("PATH", path)

	in.Node = gateway.Name
	host, inside, _, err := model.Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	applyTo(t, w.appliers[gateway].host, host)
	held = hold(t, gateway.NS, world.Port)
	expectErr(w.appliers[gateway].inside, inside, fmt.Sprintf("UDP port %d of this node is in use", world.Port))
	held.Close()
	w.apply(t)
	w.unchanged(t)
}

// hold binds a UDP port of a node, as another program may do, and returns the socket.
func hold(t *testing.T, ns *kernel.Namespace, port int) net.PacketConn {
	t.Helper()
	var socket net.PacketConn
	if err := ns.Do(
		func() (err error) { socket, err = net.ListenPacket("udp", fmt.Sprintf(":%d", port)); return err },
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

// unchanged applies the states of the model again, and fails the test if anything is written or changed.
func (w *fabric) unchanged(t *testing.T) {
	t.Helper()
	before := w.snapshot(t)
	if writes := w.apply(t); writes != 0 {
		t.Errorf("a second pass wrote %d times", writes)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("a second pass changed (-before +after):\n%s", diff)
	}
}

// sides calls f with each cluster as the client. serverSeen is the second number in the addresses by which
// the client reaches the server's pods, and clientSeen is that number in the opposite direction.
func (w *fabric) sides(f func(client, server *world.Cluster, serverSeen, clientSeen int)) {
	f(w.Rome, w.Milan, 1, 2)
	f(w.Milan, w.Rome, 2, 1)
}

func (w *fabric) podsReachPods(t *testing.T) {
	t.Helper()
	w.sides(func(client, server *world.Cluster, serverSeen, clientSeen int) {
		for i, from := range client.Nodes {
			for j := range server.Nodes {
				what := fmt.Sprintf("from the pod on %s to the one on %s", from.Name, server.Nodes[j].Name)
				exchange(
					t,
					what,
					from.Pod,
					world.Addr(fmt.Sprintf("10.%d.%d.2", serverSeen, j+1)),
					world.Addr(fmt.Sprintf("10.%d.%d.2", clientSeen, i+1)),
				)
				exchange(
					t,
					what,
					from.Pod,
					world.Addr(fmt.Sprintf("fd11:0:%d::2", j+1)),
					world.Addr(fmt.Sprintf("fd11:0:%d::2", i+1)),
				)
			}
		}
	})
}

func (w *fabric) nodesReachPods(t *testing.T) {
	t.Helper()
	w.sides(func(client, server *world.Cluster, serverSeen, clientSeen int) {
		for _, from := range client.Nodes {
			for j := range server.Nodes {
				what := fmt.Sprintf("from %s itself to the pod on %s", from.Name, server.Nodes[j].Name)
				exchange(
					t,
					what,
					from.NS,
					world.Addr(fmt.Sprintf("10.%d.%d.2", serverSeen, j+1)),
					world.Addr(fmt.Sprintf("10.%d.0.0", clientSeen)),
				)
				exchange(t, what, from.NS, world.Addr(fmt.Sprintf("fd11:0:%d::2", j+1)), world.Addr("fd11::"))
			}
		}
	})
}

// An AddressMapping makes a node of rome reachable, although its address is not in a CIDR of pods.
func (w *fabric) mappedAddressesAreReached(t *testing.T) {
	t.Helper()
	for i, from := range w.Milan.Nodes {
		exchange(
			t,
			"from the pod on "+from.Name+" to rome-2 by its mapping",
			from.Pod,
			world.Addr("10.80.0.1"),
			world.Addr(fmt.Sprintf("10.1.%d.2", i+1)),
		)
	}
}

// Rome drops packets to addresses that it has not announced to milan.
func (w *fabric) unannouncedAddressesAreUnreachable(t *testing.T) {
	t.Helper()
	ip(t, w.Rome.Nodes[0].NS, "addr add 10.66.0.1/32 dev lo")
	defer ip(t, w.Rome.Nodes[0].NS, "addr del 10.66.0.1/32 dev lo")
	pod := w.Milan.Nodes[0].Pod
	for _, to := range []netip.Addr{
		world.Addr("10.66.0.1"), world.Addr("10.80.0.9"),
		// These are addresses of nodes in the CIDRs of their pods.
		world.Addr("10.2.1.1"), world.Addr("10.2.2.1"), world.Addr("fd11:0:1::1"), world.Addr("fd11:0:2::1"),
	} {
		if saw, err := call(pod, to, 16, time.Second); err == nil {
			t.Errorf("%s was reached, by %s", to, saw)
		}
	}
	// The address becomes reachable when rome announces it.
	peer := w.Rome.Input.Peers[0]
	mappings := peer.Mappings
	peer.Mappings = append([]model.Mapping{{Seen: world.Addr("10.66.0.1"), Target: world.Addr("10.66.0.1")}}, mappings...)
	w.Rome.Input.Peers[0] = peer
	w.apply(t)
	if _, err := call(pod, world.Addr("10.66.0.1"), 16, exchangeTimeout); err != nil {
		t.Error(err)
	}
	w.Rome.Input.Peers[0].Mappings = mappings
	w.apply(t)
}

// Only rome's gateway reaches the port of probes of milan's gateway. Packets from nodes and pods have the same
// source address at milan's gateway, and must reach its other ports only.
func (w *fabric) onlyGatewaysReachEachOther(t *testing.T) {
	t.Helper()
	gateway := w.Milan.Nodes[0].Inner
	serve(t, gateway)
	answers := func(ns *kernel.Namespace) (end func() error) {
		var probes net.PacketConn
		err := ns.Do(func() (err error) {
			probes, err = net.ListenPacket("udp", fmt.Sprintf(":%d", model.EchoPort))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		go echo(probes)
		return probes.Close
	}
	defer answers(gateway)()
	query := func(ns *kernel.Namespace, to netip.Addr, timeout time.Duration) error {
		var conn net.Conn
		err := ns.Do(func() (err error) {
			conn, err = net.Dial("udp", netip.AddrPortFrom(to, model.EchoPort).String())
			return err
		})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = exchangeDatagram(conn, 16, timeout)
		return err
	}
	for _, to := range []netip.Addr{world.Addr("10.1.0.0"), world.Addr("fd11::")} {
		if err := query(w.Rome.Nodes[0].Inner, to, exchangeTimeout); err != nil {
			t.Errorf("the gateway: %v", err)
		}
		for _, n := range w.Rome.Nodes {
			if _, err := datagram(n.NS, to, 16, exchangeTimeout); err != nil {
				t.Errorf("%s, at another port: %v", n.Name, err)
			}
			for what, ns := range map[string]*kernel.Namespace{"a node": n.NS, "a pod": n.Pod} {
				if query(ns, to, 400*time.Millisecond) == nil {
					t.Errorf("%s of %s was answered at %s", what, n.Name, to)
				}
			}
		}
	}
	// Pods must still receive packets at this port.
	defer answers(w.Milan.Nodes[1].Pod)()
	if err := query(w.Rome.Nodes[1].NS, world.Addr("10.1.2.2"), exchangeTimeout); err != nil {
		t.Errorf("a pod of milan's, at the port of the probes: %v", err)
	}
}

func (w *fabric) manualChangesAreRepaired(t *testing.T) {
	t.Helper()
	gateway, worker := w.Rome.Nodes[0], w.Rome.Nodes[1]
	for _, breakage := range []struct {
		what string
		do   func()
	}{
		{"the overlay is deleted", func() { ip(t, worker.NS, "link del liqo.vxlan") }},
		{"the pair is deleted", func() { ip(t, gateway.NS, "link del liqo.host") }},
		{"the other end of the pair is deleted", func() { ip(t, gateway.Inner, "link del liqo.gateway") }},
		{"the tunnel is down", func() { ip(t, gateway.Inner, "link set liqo.wg down") }},
		{"the tunnel is deleted", func() {
			if err := gateway.Inner.DeleteLink(model.TunnelLink); err != nil {
				t.Error(err)
			}
		}},
		{"the rules are deleted", func() { ip(t, worker.NS, "rule del priority 480 protocol 58") }},
		{"the routes are deleted", func() { ip(t, worker.NS, "route flush table 5872 proto 58") }},
		{"the chains are flushed", func() { w.flush(t, gateway.Inner, gateway.NS) }},
	} {
		breakage.do()
		if w.apply(t) == 0 {
			t.Errorf("%s, and nothing was written", breakage.what)
		}
		if writes := w.apply(t); writes != 0 {
			t.Errorf("%s, and the pass after the repair wrote %d times", breakage.what, writes)
		}
		if _, err := datagram(worker.Pod, world.Addr("10.1.2.2"), 8000, exchangeTimeout); err != nil {
			t.Errorf("after %s: %v", breakage.what, err)
		}
		if _, err := datagram(w.Milan.Nodes[1].Pod, world.Addr("10.2.2.2"), 8000, exchangeTimeout); err != nil {
			t.Errorf("after %s, in the opposite direction: %v", breakage.what, err)
		}
	}
}

// The gateway of the second node becomes active. Packets must pass it at once, and milan must learn its
// endpoint.
func (w *fabric) anotherGatewayTakesOver(t *testing.T) {
	t.Helper()
	w.Rome.Input.Gateways = []string{"rome-1", "rome-2"}
	w.apply(t)
	w.unchanged(t)
	for _, active := range []string{"rome-2", "rome-1", "rome-2"} {
		w.Rome.Input.Active = active
		w.apply(t)
		switched := time.Now()
		if _, err := datagram(w.Milan.Nodes[1].Pod, world.Addr("10.2.1.2"), 1, exchangeTimeout); err != nil {
			t.Errorf("through %s, without a packet from rome: %v", active, err)
		}
		t.Logf("%s was found by milan after %s", active, time.Since(switched).Round(time.Millisecond))
		for i, from := range w.Rome.Nodes {
			exchange(
				t,
				"through "+active+", from the pod on "+from.Name,
				from.Pod,
				world.Addr("10.1.2.2"),
				world.Addr(fmt.Sprintf("10.2.%d.2", i+1)),
			)
			exchange(
				t,
				"through "+active+", from the pod on "+from.Name,
				from.Pod,
				world.Addr("fd11:0:2::2"),
				world.Addr(fmt.Sprintf("fd11:0:%d::2", i+1)),
			)
			exchange(
				t,
				"through "+active+", to the pod on "+from.Name,
				w.Milan.Nodes[1].Pod,
				world.Addr(fmt.Sprintf("10.2.%d.2", i+1)),
				world.Addr("10.1.2.2"),
			)
		}
		w.unchanged(t)
	}
}

// flush flushes the chains of the product in the namespaces of a gateway and of its node.
func (w *fabric) flush(t *testing.T, inner, node *kernel.Namespace) {
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
