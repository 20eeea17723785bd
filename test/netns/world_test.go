// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// world is two clusters, or more, whose nodes are on one wire. Their pods have the same
// addresses: 10.0.N.2 and fd10:0:N::2 on node N.
type world struct {
	here, wire  *kernel.Namespace
	rome, milan *cluster
	others      []*cluster
}

// clusters are all of them.
func (w *world) clusters() []*cluster { return append([]*cluster{w.rome, w.milan}, w.others...) }

// nodes are those of all clusters.
func (w *world) nodes() []*node {
	var all []*node
	for _, c := range w.clusters() {
		all = append(all, c.nodes...)
	}
	return all
}

type cluster struct {
	name  string
	nodes []*node
	input model.Input // but for Node
}

type node struct {
	name    string
	ns, pod *kernel.Namespace
	v4, v6  netip.Addr
	inner   *kernel.Namespace // the gateway's, on the first node or on every one

	route, host, inside *apply.Applier
}

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// newWorld makes nodes, pods and what a simple CNI would do for them, but
// nothing of ours.
func newWorld(t *testing.T, iptables string) *world {
	here, err := kernel.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	w := &world{here: here}
	w.wire = w.enter(t, here, "wire")
	ip(t, w.wire, "link add br0 type bridge", "link set br0 up")

	keyOfRome, publicOfRome := keys(t)
	keyOfMilan, publicOfMilan := keys(t)
	w.rome = w.cluster(t, "rome", 1, iptables, keyOfRome)
	w.milan = w.cluster(t, "milan", 2, iptables, keyOfMilan)
	// Rome sees milan's pods in 10.1, milan sees rome's in 10.2, and both see the
	// other's in fd11. Both have them in 10.0 and fd10.
	w.rome.input.Peers = []model.Peer{{
		ClusterID: "milan", PublicKey: publicOfMilan, Endpoint: netip.AddrPortFrom(w.milan.nodes[0].v4, 51820), MTU: 1400,
		Local:    []model.Remap{{Own: prefix("10.0.0.0/16"), Seen: prefix("10.2.0.0/16")}, {Own: prefix("fd10::/32"), Seen: prefix("fd11::/32")}},
		Remote:   []netip.Prefix{prefix("10.1.0.0/16"), prefix("fd11::/32")},
		Mappings: []model.Mapping{{Seen: addr("10.80.0.1"), Target: w.rome.nodes[1].v4}},
	}}
	w.milan.input.Peers = []model.Peer{{
		ClusterID: "rome", PublicKey: publicOfRome, Endpoint: netip.AddrPortFrom(w.rome.nodes[0].v4, 51820), MTU: 1400,
		Local: []model.Remap{{Own: prefix("10.0.0.0/16"), Seen: prefix("10.1.0.0/16")}, {Own: prefix("fd10::/32"), Seen: prefix("fd11::/32")}},
		// 10.80 holds what rome maps, 10.66 is what milan was never told of.
		Remote: []netip.Prefix{prefix("10.2.0.0/16"), prefix("fd11::/32"), prefix("10.80.0.0/24"), prefix("10.66.0.0/24")},
	}}
	return w
}

func (w *world) cluster(t *testing.T, name string, number int, iptables string, key model.PrivateKey) *cluster {
	c := &cluster{name: name, input: model.Input{
		Gateways: []string{name + "-1"}, Active: name + "-1",
		PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/32")},
		MTU:      1500, PrivateKey: key, Port: 51820,
	}}
	for i := 1; i <= 2; i++ {
		n := w.node(t, fmt.Sprintf("%s-%d", name, i), number, i, iptables)
		c.nodes = append(c.nodes, n)
		c.input.Nodes = append(c.input.Nodes, model.Node{
			Name: n.name, Addresses: []netip.Addr{n.v4, n.v6},
			PodCIDRs: []netip.Prefix{prefix(fmt.Sprintf("10.0.%d.0/24", i)), prefix(fmt.Sprintf("fd10:0:%d::/64", i))},
		})
	}
	w.addGateway(t, c.nodes[0], iptables)
	return c
}

// addGateway makes the namespace of a gateway, which uses the iptables of its
// node.
func (w *world) addGateway(t *testing.T, n *node, iptables string) {
	t.Helper()
	n.inner = w.enter(t, n.ns, n.name+"-gateway")
	n.host, n.inside = apply.New(n.ns), apply.New(n.inner)
	backend, err := n.ns.Backend()
	if err != nil || backend != iptables {
		t.Fatalf("%s has rules of iptables-%s only, and %q was found: %v", n.name, iptables, backend, err)
	}
	if err := n.inner.UseBackend(backend); err != nil {
		t.Fatal(err)
	}
}

func (w *world) node(t *testing.T, name string, cluster, number int, iptables string) *node {
	n := &node{
		name: name, v4: addr(fmt.Sprintf("172.16.%d.%d", cluster, number)), v6: addr(fmt.Sprintf("fd00::%d:%d", cluster, number)),
		ns: w.enter(t, w.here, name), pod: w.enter(t, w.here, name+"-pod"),
	}
	n.route = apply.New(n.ns)
	wire, pod, other := filepath.Join(namespaces, "wire"), filepath.Join(namespaces, name+"-pod"), 3-number
	ip(t, n.ns, "link set lo up",
		"link add eth0 type veth peer name "+name+" netns "+wire,
		"addr add "+n.v4.String()+"/16 dev eth0", "addr add "+n.v6.String()+"/64 dev eth0 nodad", "link set eth0 up",
		"link add cni0 type veth peer name eth0 netns "+pod,
		fmt.Sprintf("addr add 10.0.%d.1/24 dev cni0", number), fmt.Sprintf("addr add fd10:0:%d::1/64 dev cni0 nodad", number), "link set cni0 up",
		fmt.Sprintf("route add 10.0.%d.0/24 via 172.16.%d.%d", other, cluster, other),
		fmt.Sprintf("route add fd10:0:%d::/64 via fd00::%d:%d", other, cluster, other))
	ip(t, w.wire, "link set "+name+" master br0", "link set "+name+" up")
	ip(t, n.pod, "link set lo up",
		fmt.Sprintf("addr add 10.0.%d.2/24 dev eth0", number), fmt.Sprintf("addr add fd10:0:%d::2/64 dev eth0 nodad", number), "link set eth0 up",
		fmt.Sprintf("route add default via 10.0.%d.1", number), fmt.Sprintf("route add default via fd10:0:%d::1", number))
	for path, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
		// The strictest that a node may be about where packets come from.
		"net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/eth0/rp_filter": "1",
	} {
		if err := n.ns.SetSysctl(model.Sysctl{Path: path, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	// What a CNI does with packets that leave the cluster, and a node that
	// forwards nothing that nobody asked for.
	for _, program := range []string{"iptables", "ip6tables"} {
		pods := map[string]string{"iptables": "10.0.0.0/16", "ip6tables": "fd10::/32"}[program]
		program += "-" + iptables
		run(t, n.ns, program+" -t nat -A POSTROUTING -s "+pods+" ! -d "+pods+" -j MASQUERADE")
		run(t, n.ns, program+" -A FORWARD -s "+pods+" -d "+pods+" -j ACCEPT")
		run(t, n.ns, program+" -P FORWARD DROP")
	}
	// Others do that in a table of their own, which ours has no say in.
	run(t, n.ns, "nft add table ip cni")
	run(t, n.ns, "nft add chain ip cni postrouting { type nat hook postrouting priority srcnat + 1 ; }")
	run(t, n.ns, "nft add rule ip cni postrouting ip saddr 10.0.0.0/16 ip daddr != 10.0.0.0/16 masquerade")
	return n
}

// enter makes a namespace that goes with the test.
func (w *world) enter(t *testing.T, outer *kernel.Namespace, name string) *kernel.Namespace {
	path := filepath.Join(namespaces, name)
	ns, err := outer.Enter(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ns.Close(), kernel.RemoveNamespace(path)); err != nil {
			t.Error(err)
		}
	})
	return ns
}

// apply applies what the model says to every node, and returns how often it
// wrote.
func (w *world) apply(t *testing.T) int {
	t.Helper()
	total := 0
	for _, c := range w.clusters() {
		for _, n := range c.nodes {
			in := c.input
			in.Node = n.name
			if n.inner != nil {
				host, inside, refused, err := model.Gateway(in)
				if err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
				total += applyTo(t, n.host, host)
				total += applyTo(t, n.inside, inside)
			}
			route, _, err := model.RouteAgent(in)
			if err != nil {
				t.Fatal(err)
			}
			total += applyTo(t, n.route, route)
		}
	}
	return total
}

func applyTo(t testing.TB, a *apply.Applier, s model.State) int {
	t.Helper()
	writes, err := a.Apply(s)
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

// teardown removes everything of ours.
func (w *world) teardown(t *testing.T) {
	t.Helper()
	families := []model.Family{model.IPv4, model.IPv6}
	for _, n := range w.nodes() {
		applyTo(t, n.route, model.State{Scope: model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families}})
		if n.inner != nil {
			applyTo(t, n.inside, model.State{Scope: model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families}})
			applyTo(t, n.host, model.State{Scope: model.Scope{Links: []string{model.HostLink}}})
		}
	}
}

// volatile is what changes by itself, or is no rule: what the kernel does about
// link-local addresses, counters, comments, and the policies of tables that are
// empty.
var volatile = regexp.MustCompile(`(?m)^(#|\*|COMMIT|:[A-Z]+ ACCEPT|(anycast|local) fe80:|multicast ff00:|33:33:).*\n| tentative| \[\d+:\d+\]| expires \d+sec`)

// snapshot tells everything that the nodes and gateways hold.
func (w *world) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, n := range w.nodes() {
		for _, ns := range []*kernel.Namespace{n.ns, n.inner} {
			if ns == nil {
				continue
			}
			for _, command := range []string{
				"ip -d link", "ip addr", "ip -4 route show table all", "ip -6 route show table all", "ip -4 rule", "ip -6 rule",
				"ip neigh show nud permanent", "bridge fdb",
				"iptables-nft-save", "ip6tables-nft-save", "iptables-legacy-save", "ip6tables-legacy-save",
			} {
				fmt.Fprintf(&b, "%s: %s\n%s\n", n.name, command, volatile.ReplaceAllString(run(t, ns, command), ""))
			}
		}
	}
	return b.String()
}

// run runs a command in a namespace and returns what it printed.
func run(t testing.TB, ns *kernel.Namespace, command string) string {
	t.Helper()
	words := strings.Fields(command)
	cmd := exec.Command(words[0], words[1:]...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := ns.Do(cmd.Run); err != nil {
		t.Fatalf("%s: %v: %s", command, err, failure.String())
	}
	return out.String()
}

func ip(t *testing.T, ns *kernel.Namespace, commands ...string) {
	t.Helper()
	for _, c := range commands {
		run(t, ns, "ip "+c)
	}
}

func keys(t *testing.T) (model.PrivateKey, model.PublicKey) {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return model.PrivateKey(key.Bytes()), model.PublicKey(key.PublicKey().Bytes())
}
