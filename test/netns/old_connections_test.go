// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// When milan no longer reaches an address, packets of the connections that milan opened to it do not arrive at the next
// pod with this address. Connections that pods of rome opened continue.
func TestOldConnectionsDoNotReachTheNextPod(t *testing.T) {
	for _, iptables := range []string{"nft", "legacy"} {
		t.Run(iptables, func(t *testing.T) {
			w := newFabric(t, iptables)
			for _, n := range w.Nodes() {
				serve(t, n.Pod)
				serve(t, n.NS)
			}
			peer := &w.Rome.Input.Peers[0]
			client, rome2 := w.Milan.Nodes[1], w.Rome.Nodes[1]
			podOfRome2 := []netip.Addr{world.Addr("10.0.2.2"), world.Addr("fd10:0:2::2")}
			for _, program := range []string{"iptables", "ip6tables"} {
				run(t, client.Pod, fmt.Sprintf("%s-%s -A OUTPUT -p tcp --tcp-flags RST RST -j DROP", program, iptables))
			}
			for i, test := range []struct {
				name          string
				before, after func()
			}{
				{
					"the address leaves the TunnelReach",
					func() { peer.Offloaded, peer.Reachable = true, podOfRome2 },
					func() { peer.Reachable = []netip.Addr{world.Addr("10.0.1.2"), world.Addr("fd10:0:1::2")} },
				},
				{
					"the TunnelReach is deleted",
					func() { peer.Offloaded, peer.Reachable = true, podOfRome2 },
					func() { peer.Reachable = nil },
				},
				{
					"the reach becomes Offloaded",
					func() { peer.Offloaded = false },
					func() { peer.Offloaded, peer.Reachable = true, nil },
				},
				{
					"the address leaves the TunnelReach while no gateway runs",
					func() { peer.Offloaded, peer.Reachable = true, podOfRome2 },
					func() { peer.Reachable = nil; w.equip(w.Rome) },
				},
			} {
				all := t
				t.Run(test.name, func(t *testing.T) {
					test.before()
					w.apply(t)
					var opened []*openConnection
					for _, to := range addressesOnMilan(2) {
						opened = append(opened, open(t, client.Pod, to))
					}
					var kept []*acceptedConnection
					for j, from := range w.Rome.Nodes {
						for _, to := range []string{"10.1.1.2", "fd11:0:1::2"} {
							kept = append(kept, accept(t, from.Pod, w.Milan.Nodes[0].Pod, world.Addr(to), 7100+10*i+j))
						}
					}
					test.after()
					w.apply(t)
					w.unchanged(t)
					for _, c := range kept {
						c.continues(t)
					}
					w.replacePod(t, rome2, fmt.Sprintf("rome-2-pod-%d", i))
					serve(all, rome2.Pod)
					for _, c := range opened {
						c.ended(t)
					}
				})
			}

			t.Run("a mapping loses a port", func(t *testing.T) {
				c := open(t, client.Pod, world.Addr("10.80.0.1"))
				peer.Mappings[0].Ports = []model.Port{{Protocol: "tcp", Number: 9}}
				w.apply(t)
				w.unchanged(t)
				c.ended(t)
			})
		})
	}
}

// replacePod gives the addresses of the pod on a node to another pod.
func (w *fabric) replacePod(t *testing.T, n *world.Node, name string) {
	t.Helper()
	next, err := w.Enter(n.NS, name)
	if err != nil {
		t.Fatal(err)
	}
	ip(t, n.Pod, "link set eth0 netns "+w.Path(name))
	ip(t, next, "link set lo up", "addr add 10.0.2.2/24 dev eth0", "addr add fd10:0:2::2/64 dev eth0 nodad",
		"link set eth0 up", "route add default via 10.0.2.1", "route add default via fd10:0:2::1")
	n.Pod = next
}

// openConnection is a UDP flow and a TCP connection from one socket each.
type openConnection struct {
	from     *kernel.Namespace
	udp, tcp net.Conn
}

// open opens a UDP flow and a TCP connection to a test server.
func open(t *testing.T, from *kernel.Namespace, to netip.Addr) *openConnection {
	t.Helper()
	c := &openConnection{from: from}
	var err error
	if c.udp, err = dial(from, "udp", to, exchangeTimeout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.udp.Close() })
	if _, err := exchangeDatagram(c.udp, 16, exchangeTimeout); err != nil {
		t.Fatal(err)
	}
	if c.tcp, err = dial(from, "tcp", to, exchangeTimeout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.tcp.Close() })
	_ = c.tcp.SetDeadline(time.Now().Add(exchangeTimeout))
	if _, err := bufio.NewReader(c.tcp).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c
}

// ended checks that nothing answers at the other end: neither packets of the UDP flow, nor a new connection from the
// address and port of the TCP connection, which ends without a packet to the server.
func (c *openConnection) ended(t *testing.T) {
	t.Helper()
	if saw, err := exchangeDatagram(c.udp, 16, unreachable); err == nil {
		t.Errorf("UDP packets still reach %s, with the source address %s", c.udp.RemoteAddr(), saw)
	}
	if err := c.tcp.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.tcp.Close()
	dialer := net.Dialer{LocalAddr: c.tcp.LocalAddr(), Timeout: unreachable}
	var again net.Conn
	err := c.from.Do(func() (err error) {
		again, err = dialer.Dial("tcp", c.tcp.RemoteAddr().String())
		return err
	})
	if err == nil {
		again.Close()
		t.Errorf("a TCP connection from the same port still reaches %s", c.tcp.RemoteAddr())
	}
}

// acceptedConnection is a UDP flow and a TCP connection, as both ends have them.
type acceptedConnection struct {
	client, server struct{ udp, tcp net.Conn }
}

// accept opens a UDP flow and a TCP connection to a server of their own.
func accept(t *testing.T, from, to *kernel.Namespace, at netip.Addr, port int) *acceptedConnection {
	t.Helper()
	var c acceptedConnection
	local := fmt.Sprintf(":%d", port)
	network, server := map[bool]string{true: "4", false: "6"}[at.Is4()], netip.AddrPortFrom(at, uint16(port)).String()
	var packets *net.UDPConn
	var calls net.Listener
	if err := to.Do(func() (err error) {
		address, err := net.ResolveUDPAddr("udp"+network, local)
		if err != nil {
			return err
		}
		if packets, err = net.ListenUDP("udp"+network, address); err != nil {
			return err
		}
		calls, err = net.Listen("tcp"+network, local)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close(); calls.Close() })
	if err := from.Do(func() (err error) {
		if c.client.tcp, err = net.DialTimeout("tcp", server, exchangeTimeout); err != nil {
			return err
		}
		c.client.udp, err = net.Dial("udp", server)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.client.tcp.Close(); c.client.udp.Close() })
	var err error
	if c.server.tcp, err = calls.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.server.tcp.Close() })
	if _, err := c.client.udp.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	_ = packets.SetReadDeadline(time.Now().Add(exchangeTimeout))
	_, sender, err := packets.ReadFromUDPAddrPort(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	c.server.udp = &repliesTo{packets, sender}
	return &c
}

// repliesTo is a UDP socket whose packets are sent to one address.
type repliesTo struct {
	*net.UDPConn
	address netip.AddrPort
}

func (r *repliesTo) Write(b []byte) (int, error) { return r.WriteToUDPAddrPort(b, r.address) }

// continues checks that what the servers send arrives although the clients have sent nothing before.
func (c *acceptedConnection) continues(t *testing.T) {
	t.Helper()
	for _, end := range []struct{ server, client net.Conn }{
		{c.server.udp, c.client.udp}, {c.server.tcp, c.client.tcp},
	} {
		if _, err := end.server.Write([]byte("more")); err != nil {
			t.Errorf("sending to %s: %v", end.client.LocalAddr(), err)
		}
		_ = end.client.SetReadDeadline(time.Now().Add(exchangeTimeout))
		if _, err := end.client.Read(make([]byte, 16)); err != nil {
			t.Errorf("what %s sends does not arrive: %v", end.client.RemoteAddr(), err)
		}
	}
}
