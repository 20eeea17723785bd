// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// MAC addresses and VNI of the overlay are computed from names, so any machine that reaches a node can forge
// its packets. The pod on rome-2 must receive only packets that the gateway's node sends.
func TestOverlayRejectsPacketsOfOtherMachines(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		for _, family := range []model.Family{model.IPv4, model.IPv6} {
			t.Run(fmt.Sprintf("%s, between nodes that call each other by %s", iptables, family), func(t *testing.T) {
				w := newFabric(t, iptables)
				if family == model.IPv6 {
					for _, c := range w.Clusters() {
						for i := range c.Input.Nodes {
							a := c.Input.Nodes[i].Addresses
							a[0], a[1] = a[1], a[0]
						}
					}
				}
				w.apply(t)
				w.unchanged(t)
				gateway, node := w.Rome.Nodes[0], w.Rome.Nodes[1]
				// The source address of packets from pods to nodes must be the address of the pod's own node.
				for _, program := range []string{"iptables-", "ip6tables-"} {
					run(t, gateway.NS, program+iptables+" -I FORWARD 1 -i cni0 -j ACCEPT")
				}
				in := w.Rome.Input
				in.Node = node.Name
				state, _, err := model.RouteAgent(in)
				if err != nil {
					t.Fatal(err)
				}
				at := netip.AddrPortFrom(in.Nodes[1].Addresses[0], model.OverlayPort)
				got, stranger := receive(t, node.Pod), w.stranger(t)
				sends := func(who string, from *kernel.Namespace) {
					t.Helper()
					// On rome, milan's pods are in 10.1, so packets from there arrive on the overlay.
					send(t, from, at, overlaid(state.Links[0].MAC, world.Addr("10.1.2.2"), world.Addr("10.0.2.2"), who))
				}
				for range 3 {
					sends("a stranger", stranger)
					sends("a node of another cluster", w.Milan.Nodes[0].NS)
					sends("a pod on the gateway's node", gateway.Pod)
					sends("a pod on the node itself", node.Pod)
					sends("the gateway's node", gateway.NS)
					select {
					case who := <-got:
						if who != "the gateway's node" {
							t.Fatalf("the pod got what %s has sent", who)
						}
					case <-time.After(exchangeTimeout):
						t.Fatal("the pod did not get what the gateway's node has sent")
					}
				}
				w.unchanged(t)
			})
		}
	}
}

// A machine that sends with the address of a node must not reach pods by the overlay with any address, past their
// NetworkPolicies, and must not reach peers with the address of a gateway.
func TestOverlayCarriesPacketsBetweenPeersAndPodsOnly(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			w.apply(t)
			w.unchanged(t)
			gateway, node := w.Rome.Nodes[0], w.Rome.Nodes[1]
			for _, n := range w.Rome.Nodes {
				// Kubernetes requires no reverse path filter, and many nodes have none.
				run(t, n.NS, "sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0")
				ip(t, n.NS, "route add default via 172.16.9.9")
			}
			for _, test := range []struct {
				name     string
				from, to int
				pod      *kernel.Namespace
				address  string
				refused  []string
				admitted string
			}{
				{"a pod", 0, 1, node.Pod, "10.0.2.2", []string{"8.8.8.8", "10.0.3.2", gateway.V4.String()}, "10.1.2.2"},
				{"a pod of a peer", 1, 0, w.Milan.Nodes[0].Pod, "10.1.1.2", []string{"8.8.8.8", "172.16.9.9"}, "10.0.2.2"},
			} {
				in := w.Rome.Input
				in.Node = w.Rome.Nodes[test.to].Name
				state, _, err := model.RouteAgent(in)
				if err != nil {
					t.Fatal(err)
				}
				at := netip.AddrPortFrom(in.Nodes[test.to].Addresses[0], model.OverlayPort)
				got := receive(t, test.pod)
				for _, source := range append(test.refused, test.admitted) {
					packet := overlaid(state.Links[0].MAC, world.Addr(source), world.Addr(test.address), source)
					send(t, w.Rome.Nodes[test.from].NS, at, packet)
				}
				select {
				case source := <-got:
					if source != test.admitted {
						t.Errorf("%s got a packet from %s", test.name, source)
					}
				case <-time.After(exchangeTimeout):
					t.Errorf("%s did not get the packet from %s", test.name, test.admitted)
				}
			}
			w.teardown(t)
		})
	}
}

// send sends one UDP packet.
func send(t *testing.T, from *kernel.Namespace, to netip.AddrPort, packet []byte) {
	t.Helper()
	if err := from.Do(func() error {
		conn, err := net.Dial("udp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(packet)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// stranger returns the network namespace of a machine on the wire that belongs to no cluster.
func (w *fabric) stranger(t *testing.T) *kernel.Namespace {
	t.Helper()
	ns, err := w.Enter(w.Wire, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	ip(t, ns, "link set lo up",
		"link add eth0 type veth peer name stranger netns "+w.Path("wire"),
		"addr add 172.16.9.9/16 dev eth0", "addr add fd00::9:9/64 dev eth0 nodad", "link set eth0 up")
	ip(t, w.Wire, "link set stranger master br0", "link set stranger up")
	return ns
}

// receive returns a channel with the UDP packets that arrive at a port.
func receive(t *testing.T, ns *kernel.Namespace) <-chan string {
	t.Helper()
	var socket net.PacketConn
	if err := ns.Do(
		func() (err error) { socket, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", port)); return err },
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	got := make(chan string)
	go func() {
		buffer := make([]byte, 65535)
		for {
			n, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			select {
			case got <- string(buffer[:n]):
			case <-t.Context().Done():
				return
			}
		}
	}()
	return got
}

// overlaid returns the payload of a VXLAN packet to the node with this MAC address: headers of VXLAN,
// Ethernet, IPv4 and UDP, and the text.
func overlaid(mac model.MAC, from, to netip.Addr, text string) []byte {
	const vni, stranger = model.OverlayVNI, "\x02\x00\x00\x00\x00\x09"
	packet := []byte{0x08, 0, 0, 0, vni >> 16, vni >> 8 & 0xff, vni & 0xff, 0}
	packet = append(append(packet, mac[:]...), stranger...)
	packet = append(packet, 0x08, 0x00)

	const header, ttl, udp = 20, 64, 17
	ip := []byte{0x45, 0}
	ip = binary.BigEndian.AppendUint16(ip, uint16(header+8+len(text)))
	ip = append(ip, 0, 0, 0, 0, ttl, udp, 0, 0)
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < header; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	packet = append(packet, ip...)

	for _, field := range []uint16{port, port, uint16(8 + len(text)), 0} { // no checksum
		packet = binary.BigEndian.AppendUint16(packet, field)
	}
	return append(packet, text...)
}
