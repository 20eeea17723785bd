// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/netagent/probe"
	"liqo.io/federation/test/fakes"
	"liqo.io/federation/test/netns/world"
)

// agentTimeout is the maximal time until an agent has reacted to a change.
const agentTimeout = 30 * time.Second

// longResync is an interval of periodic passes that no test reaches. Repairs can then only be caused by
// notifications of the kernel.
const longResync = time.Hour

// api has the fake clients of the agents of one cluster.
type api struct{ *world.API }

func (a api) pod(t *testing.T, node string) {
	t.Helper()
	if err := a.AddGatewayPod(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func (a api) publicKey(t *testing.T) string {
	t.Helper()
	key, err := a.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a api) tunnel(t *testing.T, name string) *v1alpha1.TunnelEndpoint {
	t.Helper()
	te, err := a.Tunnel(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return te
}

// eventually waits until holds returns true, and fails the test after agentTimeout.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, agentTimeout, what, holds)
}

func within(t *testing.T, timeout time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("after %s it is still not so that %s", timeout, what)
		case <-tick.C:
		}
	}
}

// process is a running agent, which is stopped when the test ends.
type process struct{ *world.Process }

func started(t *testing.T, p *world.Process, err error) *process {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	return &process{p}
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func (w *fabric) startGateway(t *testing.T, c *world.Cluster, n *world.Node, a api) *process {
	t.Helper()
	options := w.GatewayOptions(c, n)
	options.ProbeInterval, options.Resync = w.probe, w.resync
	p, err := w.StartGateway(t.Context(), n, a.API, options)
	return started(t, p, err)
}

func (w *fabric) startRoute(t *testing.T, c *world.Cluster, n *world.Node, a api) *process {
	t.Helper()
	options := w.Options(c, n)
	options.Resync = w.resync
	p, err := w.StartRoute(t.Context(), n, a.API, options)
	return started(t, p, err)
}

// kill stops the only gateway of a cluster. If WireGuard runs in user space, it also deletes the tunnel, which
// would end with the process of the gateway.
func (w *fabric) kill(t *testing.T, p *process, n *world.Node) {
	t.Helper()
	p.stop(t)
	if n.Inner.Implementation(model.TunnelLink) == kernel.InProcess {
		if err := n.Inner.DeleteLink(model.TunnelLink); err != nil {
			t.Fatal(err)
		}
	}
}

// agreed returns the APIs of two clusters with the same CIDRs, with the objects that their controllers write
// after they agreed upon a tunnel.
func (w *fabric) agreed(t *testing.T) (rome, milan api) {
	t.Helper()
	publicOfRome, publicOfMilan := w.Rome.Input.PrivateKey.Public(), w.Milan.Input.PrivateKey.Public()
	rome = api{world.NewAPI(w.Rome,
		world.EndpointOf("milan", publicOfMilan, []string{netip.AddrPortFrom(w.Milan.Nodes[0].V4, 51820).String()},
			[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}, {"fd10::/32", "fd11::/32"}, {"10.70.0.0/24", "10.80.0.0/24"}},
			[][2]string{{"10.0.0.0/16", "10.1.0.0/16"}, {"fd10::/32", "fd11::/32"}}),
		&v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Name: "rome-2", Namespace: world.Installation},
			Spec: v1alpha1.AddressMappingSpec{
				ClusterID: "id-of-milan",
				Address:   w.Rome.Nodes[1].V4.String(),
				Mapped:    "10.70.0.1",
			},
		})}
	// Milan has no endpoint of rome, so only rome initiates handshakes.
	milan = api{world.NewAPI(w.Milan, world.EndpointOf("rome", publicOfRome, nil,
		[][2]string{{"10.0.0.0/16", "10.1.0.0/16"}, {"fd10::/32", "fd11::/32"}},
		[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}, {"fd10::/32", "fd11::/32"}, {"10.70.0.0/24", "10.80.0.0/24"}}))}

	return rome, milan
}

// The route agent runs on the node of the gateway, while other nodes are added, changed and deleted.
func TestRoutesFollowNodeChanges(t *testing.T) {
	w := newFabric(t, "nft")
	rome, _ := w.agreed(t)
	rome.pod(t, "rome-1")
	holder := "rome-1"
	if _, err := rome.Kube.CoordinationV1().Leases(world.Installation).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: agent.GatewayName, Namespace: world.Installation,
		}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	in := w.Rome.Input
	in.Node = holder
	host, _, _, err := model.Gateway(in)
	if err != nil {
		t.Fatal(err)
	}
	at := w.Rome.Nodes[0].NS
	applyTo(t, w.appliers[w.Rome.Nodes[0]].host, host)
	before := w.snapshot(t)
	route := w.startRoute(t, w.Rome, w.Rome.Nodes[0], rome)

	// hasNodes returns a function that reports whether the kernel has links and routes to the nodes with exactly
	// these addresses.
	hasNodes := func(addresses ...string) func() bool {
		return func() bool {
			fdb, chain := run(t, at, "bridge fdb show"), run(t, at, "iptables-nft-save -t mangle")
			routes := run(t, at, "ip -4 route show table all")
			for _, a := range addresses {
				if !strings.Contains(fdb, " dst "+a+" ") || !strings.Contains(chain, "-A LIQO-FROM-NODES -s "+a+"/32 -j ACCEPT") ||
					!strings.Contains(routes, a+" via "+a+" dev liqo.vxlan table 5873") {
					return false
				}
			}
			n := len(addresses)
			return strings.Count(fdb, "dev liqo.vxlan dst ") == n && strings.Count(chain, "-A LIQO-FROM-NODES -s ") == n
		}
	}
	nodes := rome.Kube.CoreV1().Nodes()
	third := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "rome-3", CreationTimestamp: metav1.Unix(9, 0)},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.0.3.0/24"}},
	}
	addressed := func(address string) *corev1.Node {
		n := third.DeepCopy()
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	eventually(t, "the second node is in the kernel", hasNodes("172.16.1.2"))
	if _, err := nodes.Create(t.Context(), addressed("172.16.1.3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a third node is in the kernel", hasNodes("172.16.1.2", "172.16.1.3"))
	moved := addressed("172.16.1.33")
	if _, err := nodes.Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has its new address in the kernel", hasNodes("172.16.1.2", "172.16.1.33"))

	// Changes of a node that do not concern its addresses cause no kernel writes.
	anotherPass(t, rome, route)
	wrote, err := route.Writes()
	if err != nil {
		t.Fatal(err)
	}
	moved.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := nodes.Update(t.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	anotherPass(t, rome, route)
	if now, err := route.Writes(); err != nil || now != wrote {
		t.Errorf("a change of a node's condition caused %v kernel writes: %v", now-wrote, err)
	}

	if err := nodes.Delete(t.Context(), "rome-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is deleted from the kernel", hasNodes("172.16.1.2"))
	route.stop(t)
	if _, err := agent.CleanRoute(at); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// anotherPass causes a pass of the agent that changes nothing, and waits until it is complete. It creates a
// gateway's pod on an unknown node.
func anotherPass(t *testing.T, a api, p *process) {
	t.Helper()
	before, err := p.Passes()
	if err != nil {
		t.Fatal(err)
	}
	a.pod(t, fmt.Sprintf("nowhere-%v", before))
	eventually(t, "another pass was made", func() bool {
		now, err := p.Passes()
		return err == nil && now > before
	})
}

// connected returns a function that reports whether the status of a tunnel is Connected by this gateway.
func connected(t *testing.T, a api, name, gateway string) func() bool {
	return func() bool {
		s := a.tunnel(t, name).Status
		return s.Phase == v1alpha1.TunnelConnected && s.Gateway == gateway && s.LatencyMicroseconds > 0 && s.Endpoint != ""
	}
}

// With objects of the API, the agents connect the pods of two clusters with the same CIDRs through a real
// kernel, and repair what is changed.
func TestAgentsCreateAndRepairTheFabric(t *testing.T) {
	w := newFabric(t, "nft")
	for _, n := range w.Nodes() {
		serve(t, n.Pod)
		serve(t, n.NS)
	}
	w.addGateway(t, w.Rome.Nodes[1])
	before := w.snapshot(t)
	rome, milan := w.agreed(t)
	rome.pod(t, "rome-1")
	milan.pod(t, "milan-1")
	first := w.startGateway(t, w.Rome, w.Rome.Nodes[0], rome)
	milanGateway := w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan)
	var routes []*process
	for _, n := range w.Rome.Nodes {
		routes = append(routes, w.startRoute(t, w.Rome, n, rome))
	}
	for _, n := range w.Milan.Nodes {
		routes = append(routes, w.startRoute(t, w.Milan, n, milan))
	}
	began := time.Now()
	eventually(t, "rome is connected to milan", connected(t, rome, "milan", "rome-1"))
	eventually(t, "milan is connected to rome", connected(t, milan, "rome", "milan-1"))
	t.Logf(
		"connected after %s, by %s: %+v",
		time.Since(began).Round(time.Millisecond),
		rome.tunnel(t, "milan").Status.Implementation,
		rome.tunnel(t, "milan").Status,
	)

	w.podsReachPods(t)
	w.nodesReachPods(t)
	w.mappedAddressesAreReached(t)

	t.Run("large packets are lost on the path", func(t *testing.T) {
		// The bridge drops packets that are larger than the MTU of a port, and sends no ICMP errors.
		ip(t, w.Wire, "link set rome-1 mtu 1440")
		expect := func(of api, peer string, mtu int32, want string) {
			t.Helper()
			began := time.Now()
			eventually(t, want, func() bool {
				te := of.tunnel(t, peer)
				if te.Spec.MTU != mtu {
					// The fake API server stores the spec that the writer of a status had read, so the change is repeated until
					// it stays.
					te.Spec.MTU, te.Generation = mtu, te.Generation+1
					if _, err := of.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation).Update(
						t.Context(), te, metav1.UpdateOptions{},
					); err != nil {
						t.Fatal(err)
					}
				}
				c := meta.FindStatusCondition(te.Status.Conditions, v1alpha1.ConditionPathMTU)
				return te.Status.Phase == v1alpha1.TunnelConnected && c != nil &&
					strings.Contains(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), want)
			})
			t.Logf("%d bytes: %s after %s", mtu, want, time.Since(began).Round(time.Millisecond))
		}
		// The headers of IPv4, UDP and WireGuard have 60 bytes, and WireGuard pads packets to a multiple of 16.
		const tooLarge = "False PacketsTooLarge: Packets of the agreed size of 1398 bytes are lost " +
			"on the path to the remote gateway or back. The largest packets that pass have 1376 bytes,"
		expect(rome, "milan", 1398, tooLarge)
		expect(milan, "rome", 1398, tooLarge)
		// Packets from every node must have the smaller size.
		if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 8000, agentTimeout); err != nil {
			t.Errorf("large datagrams are not answered: %v", err)
		}
		expect(rome, "milan", 1376, "True PacketsPass: Packets of 1376")
		ip(t, w.Wire, "link set rome-1 mtu 1500")
		expect(rome, "milan", 1400, "True PacketsPass: Packets of 1400")
		if mtu := rome.tunnel(t, "milan").Status.PathMTU; mtu != 0 {
			t.Errorf("all of it passes, and no more than %d bytes are sent", mtu)
		}
	})

	t.Run("manual changes are repaired", func(t *testing.T) {
		for _, breakage := range []struct {
			ns   *kernel.Namespace
			what string
		}{
			{w.Rome.Nodes[1].NS, "link del liqo.vxlan"},
			{w.Rome.Nodes[0].NS, "link del liqo.host"},
			{w.Rome.Nodes[0].Inner, "link set liqo.wg down"},
			{w.Rome.Nodes[1].NS, "route flush table 5872 proto 58"},
			{w.Rome.Nodes[1].NS, "-6 route flush table 5872 proto 58"},
			{w.Rome.Nodes[1].NS, "rule del priority 480 protocol 58"},
			{w.Rome.Nodes[0].NS, "route flush table 5873 proto 58"},
			{w.Rome.Nodes[0].NS, "rule del priority 481 protocol 58"},
			{w.Rome.Nodes[0].NS, "rule del priority 479 protocol 58"},
		} {
			ip(t, breakage.ns, breakage.what)
			for _, to := range []string{"10.1.2.2", "fd11:0:2::2"} {
				if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr(to), 8000, agentTimeout); err != nil {
					t.Errorf("after ip %s, to %s: %v", breakage.what, to, err)
				}
			}
		}
		// Connections that start while the chains are flushed are recorded by connection tracking without a
		// translation.
		w.flush(t, w.Rome.Nodes[0].Inner, w.Rome.Nodes[0].NS)
		if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 8000, agentTimeout); err != nil {
			t.Errorf("after the chains were emptied: %v", err)
		}
	})

	t.Run("another gateway takes over when the active one fails", func(t *testing.T) {
		rome.pod(t, "rome-2")
		second := w.startGateway(t, w.Rome, w.Rome.Nodes[1], rome)
		// The link of a standby gateway has no peers.
		eventually(t, "the second gateway is standby", func() bool {
			tunnel, err := w.Rome.Nodes[1].Inner.Tunnel(model.TunnelLink)
			return err == nil && tunnel.Port == 51820 && len(tunnel.Peers) == 0
		})
		if _, err := datagram(w.Rome.Nodes[0].Pod, world.Addr("10.1.2.2"), 1, exchangeTimeout); err != nil {
			t.Error(err)
		}
		running := transfer(t, w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"))
		// The node is disconnected, as after a power failure.
		died := time.Now()
		ip(t, w.Wire, "link set rome-1 down")
		if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 1, agentTimeout); err != nil {
			t.Error(err)
		}
		t.Logf("packets went again after %s", time.Since(died).Round(time.Millisecond))
		eventually(t, "rome-2 is active", connected(t, rome, "milan", "rome-2"))
		t.Logf("the longest wait of a connection was %s", running.end(t))
		if _, err := datagram(w.Milan.Nodes[1].Pod, world.Addr("10.2.2.2"), 1, exchangeTimeout); err != nil {
			t.Errorf("in the opposite direction: %v", err)
		}
		// The node is connected again, and its gateway removes its peers, because it is no longer active.
		ip(t, w.Wire, "link set rome-1 up")
		eventually(t, "the first gateway is standby", func() bool {
			tunnel, err := w.Rome.Nodes[0].Inner.Tunnel(model.TunnelLink)
			return err == nil && len(tunnel.Peers) == 0
		})
		w.podsReachPods(t)

		// A gateway that terminates regularly releases its Lease first.
		second.stop(t)
		eventually(t, "rome-1 is active", connected(t, rome, "milan", "rome-1"))
		w.podsReachPods(t)
	})

	t.Run("an invalid peer affects no other", func(t *testing.T) {
		bad := world.EndpointOf(
			"lucca",
			model.PublicKey{9},
			nil,
			[][2]string{{"10.0.0.0/16", "10.0.0.0/16"}},
			[][2]string{{"10.0.0.0/16", "10.0.0.0/16"}},
		)
		client := rome.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation)
		if _, err := client.Create(t.Context(), bad, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is refused", func() bool { return rome.tunnel(t, "lucca").Status.Phase == v1alpha1.TunnelError })
		if c := rome.tunnel(t, "lucca").Status.Conditions[0]; !strings.Contains(c.Message, "the local cluster") {
			t.Errorf("%+v", c)
		}
		w.podsReachPods(t)
		if err := client.Delete(t.Context(), "lucca", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a peer announces the range of another gateway", func(t *testing.T) {
		// Both clusters may use the same range by chance for the addresses of their nodes.
		around := netip.PrefixFrom(w.Milan.Nodes[0].V4, 24).Masked()
		turin := world.EndpointOf(
			"turin",
			model.PublicKey{9},
			nil,
			[][2]string{{"10.0.0.0/16", "10.5.0.0/16"}},
			[][2]string{{around.String(), around.String()}},
		)
		client := rome.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation)
		if _, err := client.Create(t.Context(), turin, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, n := range w.Rome.Nodes {
			eventually(t, n.Name+" routes to it by the tunnel", func() bool {
				routes, err := n.NS.Routes()
				return err == nil &&
					slices.ContainsFunc(routes, func(r model.Route) bool { return r.Table == model.PeersTable && r.Dst == around })
			})
		}
		w.podsReachPods(t)
		// The link is created again, so that a new handshake and its reply have to pass as well.
		ip(t, w.Rome.Nodes[0].Inner, "link del liqo.wg")
		if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 1, agentTimeout); err != nil {
			t.Error(err)
		}
		if err := client.Delete(t.Context(), "turin", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("a key changes", func(t *testing.T) {
		eventually(t, "milan publishes its public key", func() bool {
			return milan.publicKey(t) == w.Milan.Input.PrivateKey.Public().String()
		})
		next, key := keys(t)
		if err := milan.SetKey(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		public := key.String()
		eventually(t, "milan publishes its new public key", func() bool { return milan.publicKey(t) == public })
		eventually(t, "another handshake completes", func() bool {
			te := rome.tunnel(t, "milan")
			if te.Spec.PublicKey != public {
				// The fake API server stores the spec that the writer of a status had read, so the change is repeated until
				// it stays.
				te.Spec.PublicKey, te.Generation = public, te.Generation+1
				if _, err := rome.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation).Update(
					t.Context(), te, metav1.UpdateOptions{},
				); err != nil {
					t.Fatal(err)
				}
			}
			traffic, err := w.Rome.Nodes[0].Inner.Traffic(model.TunnelLink)
			return err == nil && !traffic[key].Handshake.IsZero() && te.Status.Phase == v1alpha1.TunnelConnected
		})
		w.podsReachPods(t)
	})

	t.Run("a peer is behind a NAT that loses its state", func(t *testing.T) {
		node := w.Rome.Nodes[0].NS
		nat := func(do, ports string) {
			t.Helper()
			// Packets from milan must not create the connection tracking entry, because replies would then have the port
			// to which they were sent.
			run(t, node, "iptables-nft -t raw -I PREROUTING -p udp --dport 51820 -j DROP")
			run(t, node, "iptables-nft -t nat "+do+" POSTROUTING -p udp --sport 51820 -j MASQUERADE --to-ports "+ports)
			run(t, node, "conntrack -F")
			eventually(t, "rome has sent something", func() bool {
				return strings.Contains(run(t, node, "conntrack -L -p udp"), "sport=51820 dport=51820")
			})
			run(t, node, "iptables-nft -t raw -D PREROUTING -p udp --dport 51820 -j DROP")
		}
		receivedFrom := func(first, last uint16) {
			t.Helper()
			eventually(t, fmt.Sprintf("milan receives from rome at a port from %d to %d", first, last), func() bool {
				at, err := netip.ParseAddrPort(milan.tunnel(t, "rome").Status.Endpoint)
				return err == nil && at.Addr() == w.Rome.Nodes[0].V4 && at.Port() >= first && at.Port() <= last
			})
			w.podsReachPods(t)
		}
		receivedFrom(51820, 51820)
		for _, first := range []uint16{40000, 41000} {
			ports := fmt.Sprintf("%d-%d", first, first+999)
			nat("-I", ports)
			receivedFrom(first, first+999)
			nat("-D", ports)
			receivedFrom(51820, 51820)
		}
	})

	t.Run("a restart leaves everything in place", func(t *testing.T) {
		held := w.snapshot(t)
		milanGateway.stop(t)
		routes[3].stop(t)
		if diff := cmp.Diff(held, w.snapshot(t)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		w.podsReachPods(t)
		milanGateway = w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan)
		routes[3] = w.startRoute(t, w.Milan, w.Milan.Nodes[1], milan)
		eventually(t, "milan is connected to rome", connected(t, milan, "rome", "milan-1"))
		w.podsReachPods(t)
	})

	t.Run("connections survive the restart of the only gateway", func(t *testing.T) {
		running := transfer(t, w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"))
		w.kill(t, milanGateway, w.Milan.Nodes[0])
		milanGateway = w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan)
		t.Logf(
			"a connection waited for %s while milan's gateway, which does not initiate handshakes, was restarted",
			running.end(t),
		)
		running = transfer(t, w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"))
		w.kill(t, first, w.Rome.Nodes[0])
		first = w.startGateway(t, w.Rome, w.Rome.Nodes[0], rome)
		t.Logf("a connection waited for %s while rome's gateway, which initiates handshakes, was restarted", running.end(t))
		w.podsReachPods(t)
	})

	for _, p := range append(routes, first, milanGateway) {
		p.stop(t)
	}
	for _, n := range w.Nodes() {
		var errs []error
		if n.Inner != nil {
			_, err := agent.CleanGateway(n.NS, n.Inner)
			errs = append(errs, err)
			if by := n.Inner.Implementation(model.TunnelLink); by != "" {
				t.Errorf("%s must have no tunnel after the cleanup, and has one of implementation %s", n.Name, by)
			}
		}
		_, err := agent.CleanRoute(n.NS)
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// A gateway that moves to another node leaves its objects on the node. If the network is disabled soon
// afterwards, only the route agent can delete them.
func TestRemovedRouteAgentDeletesGatewayLeftovers(t *testing.T) {
	w := newFabric(t, "nft")
	before := w.snapshot(t)
	_, publicOfMilan := keys(t)
	rome := api{world.NewAPI(w.Rome, world.EndpointOf("milan", publicOfMilan, nil,
		[][2]string{{"10.0.0.0/16", "10.2.0.0/16"}}, [][2]string{{"10.0.0.0/16", "10.1.0.0/16"}}))}
	n := w.Rome.Nodes[0]
	holds := func(name string) bool {
		links, err := n.NS.Links()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(links, func(l kernel.Link) bool { return l.Name == name })
	}
	moving, route := w.startGateway(t, w.Rome, n, rome), w.startRoute(t, w.Rome, n, rome)
	eventually(
		t,
		"both agents have set rome-1 up",
		func() bool { return holds(model.HostLink) && holds(model.OverlayLink) },
	)
	moving.stop(t)
	if !holds(model.HostLink) {
		t.Error("the gateway has removed its own")
	}
	if err := rome.Kube.AppsV1().DaemonSets(world.Installation).Delete(
		t.Context(), agent.RouteName, metav1.DeleteOptions{},
	); err != nil {
		t.Fatal(err)
	}
	route.stop(t)
	if _, err := os.Stat(w.Path("rome-1-gateway")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the gateway's namespace still exists: %v", err)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// apiOutage makes every request fail until end is called. failed counts the requests for a resource that
// failed meanwhile.
func (a api) apiOutage(resource string) (failed *atomic.Int64, end func()) {
	var over atomic.Bool
	failed = &atomic.Int64{}
	fail := func(action clienttesting.Action) (bool, error) {
		if over.Load() {
			return false, nil
		}
		if action.GetResource().Resource == resource {
			failed.Add(1)
		}
		return true, apierrors.NewServiceUnavailable("the API server is unavailable")
	}
	for _, client := range []*clienttesting.Fake{&a.Kube.Fake, &a.Federation.Fake} {
		fakes.React(client, "*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			fails, err := fail(action)
			return fails, nil, err
		})
		client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			fails, err := fail(action)
			return fails, nil, err
		})
	}
	return failed, func() { over.Store(true) }
}

// During the outage the Lease expires, and no gateway can renew or acquire it.
func TestActiveGatewayStaysDuringAnAPIServerOutage(t *testing.T) {
	w := newFabric(t, "nft")
	serve(t, w.Milan.Nodes[1].Pod)
	w.addGateway(t, w.Rome.Nodes[1])
	rome, milan := w.agreed(t)
	rome.pod(t, "rome-1")
	rome.pod(t, "rome-2")
	milan.pod(t, "milan-1")
	w.startGateway(t, w.Rome, w.Rome.Nodes[0], rome)
	eventually(t, "rome-1 is active", func() bool { return len(w.peers(t, w.Rome.Nodes[0])) == 1 })
	second := w.startGateway(t, w.Rome, w.Rome.Nodes[1], rome)
	w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan)
	for _, n := range w.Rome.Nodes {
		w.startRoute(t, w.Rome, n, rome)
	}
	for _, n := range w.Milan.Nodes {
		w.startRoute(t, w.Milan, n, milan)
	}
	eventually(t, "rome is connected to milan", connected(t, rome, "milan", "rome-1"))
	eventually(t, "rome-2 is standby", func() bool {
		done, err := second.Passes()
		return err == nil && done > 0
	})
	lease := func() coordinationv1.LeaseSpec {
		t.Helper()
		// The test reads the tracker of the fake client, because requests fail.
		found, err := rome.Kube.Tracker().
			Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), world.Installation, agent.GatewayName)
		if err != nil {
			t.Fatal(err)
		}
		return found.(*coordinationv1.Lease).Spec
	}
	before := lease()
	running := transfer(t, w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"))
	failed, end := rome.apiOutage("leases")
	eventually(t, "the Lease has expired", func() bool {
		held := lease()
		return failed.Load() > 0 && time.Since(held.RenewTime.Time) > time.Duration(*held.LeaseDurationSeconds)*time.Second
	})
	tried := failed.Load()
	eventually(t, "rome-1 has tried once more to renew it", func() bool { return failed.Load() > tried })
	continues := func(when string) {
		t.Helper()
		held := lease()
		if *held.HolderIdentity != "rome-1" || *held.LeaseTransitions != *before.LeaseTransitions {
			t.Errorf("%s %s holds the Lease after %d transitions", when, *held.HolderIdentity, *held.LeaseTransitions)
		}
		if active, standing := len(w.peers(t, w.Rome.Nodes[0])), len(w.peers(t, w.Rome.Nodes[1])); active != 1 ||
			standing != 0 {
			t.Errorf("%s rome-1 has %d peers, and rome-2 %d", when, active, standing)
		}
		if _, err := datagram(w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2"), 1, exchangeTimeout); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	continues("while the API server is unavailable")
	end()
	eventually(t, "the Lease is renewed", func() bool { return lease().RenewTime.After(before.RenewTime.Time) })
	continues("once the API server is available")
	t.Logf("the longest wait of a connection was %s", running.end(t))
}

// peers returns the peers of the WireGuard link of a gateway.
func (w *fabric) peers(t *testing.T, n *world.Node) []model.TunnelPeer {
	t.Helper()
	tunnel, err := n.Inner.Tunnel(model.TunnelLink)
	if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return tunnel.Peers
}

// If a port of a node is in use, a condition reports it, and only the server of that port does not work.
func TestGatewayWithPortsInUseServesItsPeers(t *testing.T) {
	w := newFabric(t, "nft")
	n := w.Rome.Nodes[0]
	serve(t, w.Milan.Nodes[0].Pod)
	rome, milan := w.agreed(t)
	te := rome.tunnel(t, "milan")
	te.Spec.Control = []v1alpha1.TunnelControl{v1alpha1.TunnelControlCall}
	if _, err := rome.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation).Update(
		t.Context(), te, metav1.UpdateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	rome.pod(t, "rome-1")
	milan.pod(t, "milan-1")
	const controlPort = 5878
	var beacon net.PacketConn
	var control net.Listener
	if err := n.NS.Do(func() (err error) {
		if beacon, err = net.ListenPacket("udp", fmt.Sprintf(":%d", probe.BeaconPort)); err != nil {
			return err
		}
		control, err = net.Listen("tcp", fmt.Sprintf(":%d", controlPort))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	options := w.GatewayOptions(w.Rome, n)
	options.ControlPort = controlPort
	gateway, err := w.StartGateway(t.Context(), n, rome.API, options)
	started(t, gateway, err)
	w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan)
	w.startRoute(t, w.Rome, n, rome)
	w.startRoute(t, w.Milan, w.Milan.Nodes[0], milan)
	const ofBeacon, ofControl = "UDP port 5873 of this node is in use", "TCP port 5878 of this node is in use"
	expect := func(what string, words, not []string) {
		t.Helper()
		eventually(t, what, func() bool {
			s := rome.tunnel(t, "milan").Status
			c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionConnected)
			holds := func(text string) bool { return c != nil && strings.Contains(c.Message, text) }
			return s.Phase == v1alpha1.TunnelConnected && !slices.ContainsFunc(not, holds) &&
				!slices.ContainsFunc(words, func(text string) bool { return !holds(text) })
		})
	}
	expect("connected, with both ports reported", []string{ofBeacon, ofControl}, nil)
	if _, err := datagram(n.Pod, world.Addr("10.1.1.2"), 1, exchangeTimeout); err != nil {
		t.Error(err)
	}
	if err := errors.Join(beacon.Close(), control.Close()); err != nil {
		t.Fatal(err)
	}
	expect("not reported once they are free", nil, []string{ofBeacon, ofControl, "not running"})
}

// Agents run as many periodic passes as in an hour, while a connection is in use. They must not write to the
// kernel, and the connection must continue.
func TestAnHourOfPassesWritesNothing(t *testing.T) {
	const passes = 120 // one every 30 seconds
	w := newFabric(t, "nft")
	// Probes have a longer timeout, so that late replies do not count as lost.
	w.resync, w.probe = 10*time.Millisecond, time.Second
	serve(t, w.Milan.Nodes[1].Pod)
	rome, milan := w.agreed(t)
	rome.pod(t, "rome-1")
	milan.pod(t, "milan-1")
	agents := []*process{
		w.startGateway(t, w.Rome, w.Rome.Nodes[0], rome),
		w.startGateway(t, w.Milan, w.Milan.Nodes[0], milan),
	}
	for _, n := range w.Rome.Nodes {
		agents = append(agents, w.startRoute(t, w.Rome, n, rome))
	}
	for _, n := range w.Milan.Nodes {
		agents = append(agents, w.startRoute(t, w.Milan, n, milan))
	}
	eventually(t, "rome is connected to milan", connected(t, rome, "milan", "rome-1"))
	eventually(t, "milan is connected to rome", connected(t, milan, "rome", "milan-1"))
	// Rome initiates the handshake. Milan writes rome's endpoint once, up to a second after both gateways have
	// reported the connection.
	eventually(t, "milan uses a keepalive", func() bool {
		return slices.ContainsFunc(w.peers(t, w.Milan.Nodes[0]), func(p model.TunnelPeer) bool { return p.Keepalive > 0 })
	})
	count := func(of func(*world.Process) (float64, error)) (all []float64) {
		for _, p := range agents {
			n, err := of(p.Process)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	// made waits until every agent has completed a number of further passes.
	made := func(passes float64) {
		t.Helper()
		since := count((*world.Process).Passes)
		within(t, longTimeout/2, fmt.Sprintf("every agent has made %v passes", passes), func() bool {
			for i, n := range count((*world.Process).Passes) {
				if n < since[i]+passes {
					return false
				}
			}
			return true
		})
	}
	var written []float64
	within(t, longTimeout/2, "no agent writes any more", func() bool {
		written = count((*world.Process).Writes)
		made(2)
		return slices.Equal(written, count((*world.Process).Writes))
	})
	running, before := transfer(t, w.Rome.Nodes[1].Pod, world.Addr("10.1.2.2")), w.snapshot(t)
	made(passes)
	if diff := cmp.Diff(written, count((*world.Process).Writes)); diff != "" {
		t.Errorf("writes of the agents (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	running.end(t)
}
