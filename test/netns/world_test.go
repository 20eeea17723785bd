// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/netns/world"
)

// fabric is a world to whose nodes the states of the model are applied.
type fabric struct {
	*world.World
	appliers map[*world.Node]appliers
	// resync is the Resync option of all agents, and probe the ProbeInterval of all gateways.
	resync, probe time.Duration
}

// appliers apply the states of the agents of one node: the route agent's, and the gateway's on the node and
// in its namespace.
type appliers struct{ route, host, inside *apply.Applier }

func newFabric(t *testing.T, iptables string) *fabric {
	t.Helper()
	made, err := world.New(world.Options{Iptables: iptables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &fabric{World: made, appliers: make(map[*world.Node]appliers), resync: longResync, probe: 200 * time.Millisecond}
	for _, c := range w.Clusters() {
		w.equip(c)
	}
	return w
}

// equip creates the appliers of the nodes of a cluster.
func (w *fabric) equip(c *world.Cluster) {
	for _, n := range c.Nodes {
		w.appliers[n] = appliers{route: apply.New(n.NS), host: apply.New(n.NS), inside: apply.New(n.Inner)}
	}
}

// addCluster adds a cluster with the same CIDRs as rome, and returns it with the public key of its gateway.
func (w *fabric) addCluster(t *testing.T, name string) (*world.Cluster, model.PublicKey) {
	t.Helper()
	c, public, err := w.Add(name)
	if err != nil {
		t.Fatal(err)
	}
	w.equip(c)
	return c, public
}

// addGateway creates the network namespace of a gateway on a node.
func (w *fabric) addGateway(t *testing.T, n *world.Node) {
	t.Helper()
	if err := w.AddGateway(n); err != nil {
		t.Fatal(err)
	}
	a := w.appliers[n]
	a.inside = apply.New(n.Inner)
	w.appliers[n] = a
}

// apply applies the states of the model to all nodes, and returns the number of writes to the kernel.
func (w *fabric) apply(t *testing.T) int {
	t.Helper()
	total := 0
	for _, c := range w.Clusters() {
		for _, n := range c.Nodes {
			in := c.Input
			in.Node = n.Name
			if n.Inner != nil {
				host, inside, refused, err := model.Gateway(in)
				if err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
				total += applyTo(t, w.appliers[n].host, host)
				total += applyTo(t, w.appliers[n].inside, inside)
			}
			route, _, err := model.RouteAgent(in)
			if err != nil {
				t.Fatal(err)
			}
			total += applyTo(t, w.appliers[n].route, route)
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

// teardown deletes all objects of the product from all nodes.
func (w *fabric) teardown(t *testing.T) {
	t.Helper()
	families := []model.Family{model.IPv4, model.IPv6}
	for _, n := range w.Nodes() {
		applyTo(
			t,
			w.appliers[n].route,
			model.State{Scope: model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families}},
		)
		if n.Inner != nil {
			applyTo(
				t,
				w.appliers[n].inside,
				model.State{
					Scope: model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families},
				},
			)
			applyTo(t, w.appliers[n].host, model.State{Scope: model.Scope{Links: []string{model.HostLink}}})
		}
	}
}

// volatile matches the parts of a snapshot that change without writes of the product: link-local addresses,
// counters, comments, and policies of empty tables.
var volatile = regexp.MustCompile(
	`(?m)^(#|\*|COMMIT|:[A-Z]+ ACCEPT|(anycast|local) fe80:|multicast ff00:|33:33:).*\n|` +
		` tentative| \[\d+:\d+\]| expires \d+sec`,
)

// snapshot returns the network configuration of all nodes and gateways as a text.
func (w *fabric) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, n := range w.Nodes() {
		for _, ns := range []*kernel.Namespace{n.NS, n.Inner} {
			if ns == nil {
				continue
			}
			for _, command := range []string{
				"ip -d link", "ip addr", "ip -4 route show table all", "ip -6 route show table all", "ip -4 rule", "ip -6 rule",
				"ip neigh show nud permanent", "bridge fdb",
				"iptables-nft-save", "ip6tables-nft-save", "iptables-legacy-save", "ip6tables-legacy-save",
			} {
				fmt.Fprintf(&b, "%s: %s\n%s\n", n.Name, command, volatile.ReplaceAllString(run(t, ns, command), ""))
			}
		}
	}
	return b.String()
}

// run runs a command in a network namespace, and returns its output. It fails the test if the command fails.
func run(t testing.TB, ns *kernel.Namespace, command string) string {
	t.Helper()
	out, err := world.Run(ns, command)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ip(t *testing.T, ns *kernel.Namespace, commands ...string) {
	t.Helper()
	if err := world.IP(ns, commands...); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T) (model.PrivateKey, model.PublicKey) {
	t.Helper()
	private, public, err := world.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}
