// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
)

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func nodeAt(name, address, pods string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{pods}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

func newWorker(t *testing.T) (*worker, *fake.Kernel, *agent.Objects) {
	t.Helper()
	own, err := agent.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	o := &agent.Objects{
		Ranges: netmap.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}},
		TunnelEndpoints: []*v1alpha1.TunnelEndpoint{{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.TunnelEndpointSpec{
				ClusterID: "id-of-milan", PublicKey: strings.Repeat("A", 42) + "E=",
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}},
			},
		}},
	}
	for name, address := range map[string]string{
		"rome-1": "192.168.1.1", "rome-2": "192.168.1.2", "rome-3": "192.168.1.3",
	} {
		o.Nodes = append(o.Nodes, nodeAt(name, address, "10.0."+address[len(address)-1:]+".0/24"))
	}
	k := fake.New()
	return &worker{
		self: "rome-3", cluster: agent.Cluster{Port: 51820, MTU: 1500},
		objects: func() (agent.Objects, error) { return *o, nil }, applier: apply.New(k), metrics: own,
		clock: clocktesting.NewFakeClock(time.Unix(0, 0)), tidy: func() error { return nil },
	}, k, o
}

func TestRoutesFollowTheLeaseAndASecondPassWritesNothing(t *testing.T) {
	w, k, o := newWorker(t)
	o.Gateways = []string{"rome-1", "rome-2"}
	if err := w.pass(t.Context()); err != nil || k.Writes != 0 {
		t.Errorf("before a gateway was active: %v, %d writes", err, k.Writes)
	}
	for _, test := range []struct {
		lease   *coordinationv1.Lease
		changed bool
		via     string
	}{
		{leaseOf(""), false, ""},
		{leaseOf("rome-1"), true, "192.168.1.1"},
		{leaseOf("rome-1"), false, "192.168.1.1"},
		{leaseOf("rome-2"), true, "192.168.1.2"},
		{leaseOf(""), false, "192.168.1.2"},
		{nil, false, "192.168.1.2"},
	} {
		if changed := w.observe(test.lease); changed != test.changed {
			t.Errorf("observe(%v) = %v", test.lease, changed)
		}
		if err := w.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := k.Writes
		if err := w.pass(t.Context()); err != nil || k.Writes != before {
			t.Errorf("second pass: %v, %d writes", err, k.Writes-before)
		}
		routes, err := k.Routes()
		if err != nil {
			t.Fatal(err)
		}
		if test.via == "" {
			if len(routes) != 0 {
				t.Errorf("unexpected routes: %v", routes)
			}
			continue
		}
		if len(routes) != 1 || routes[0].Dst.String() != "10.1.0.0/16" || routes[0].Via.String() != test.via {
			t.Errorf("routes %v, want next hop %s", routes, test.via)
		}
	}
	if _, err := agent.CleanRoute(k); err != nil {
		t.Fatal(err)
	}
	if left := k.Dump(); strings.Contains(left, "liqo") || strings.Contains(left, "LIQO") {
		t.Errorf("left behind:\n%s", left)
	}
}

// A node with a standby gateway exchanges packets on the overlay with all other nodes.
func TestRoutesFollowNodeChanges(t *testing.T) {
	w, k, o := newWorker(t)
	o.Gateways = []string{"rome-1", "rome-3"}
	w.observe(leaseOf("rome-1"))
	for _, test := range []struct {
		name string
		do   func()
		// nodes with an FDB entry, and routes to nodes.
		nodes, routes []string
	}{
		{"at first", func() {}, []string{"192.168.1.1", "192.168.1.2"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "192.168.1.1/32 via 192.168.1.1",
				"192.168.1.2/32 via 192.168.1.2",
			}},
		{"a node is added", func() {
			o.Nodes = append(o.Nodes, nodeAt("rome-4", "192.168.1.4", "10.0.4.0/24"))
		}, []string{"192.168.1.1", "192.168.1.2", "192.168.1.4"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "10.0.4.0/24 via 192.168.1.4",
				"192.168.1.1/32 via 192.168.1.1", "192.168.1.2/32 via 192.168.1.2", "192.168.1.4/32 via 192.168.1.4",
			}},
		{"it has another address", func() {
			o.Nodes[3] = nodeAt("rome-4", "192.168.1.44", "10.0.4.0/24")
		}, []string{"192.168.1.1", "192.168.1.2", "192.168.1.44"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "10.0.4.0/24 via 192.168.1.44",
				"192.168.1.1/32 via 192.168.1.1", "192.168.1.2/32 via 192.168.1.2", "192.168.1.44/32 via 192.168.1.44",
			}},
		{"it has another pod CIDR", func() {
			o.Nodes[3] = nodeAt("rome-4", "192.168.1.44", "10.0.5.0/24")
		}, []string{"192.168.1.1", "192.168.1.2", "192.168.1.44"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "10.0.5.0/24 via 192.168.1.44",
				"192.168.1.1/32 via 192.168.1.1", "192.168.1.2/32 via 192.168.1.2", "192.168.1.44/32 via 192.168.1.44",
			}},
		{"another node has its address and pod CIDR", func() {
			o.Nodes[3] = nodeAt("rome-5", "192.168.1.44", "10.0.5.0/24")
		}, []string{"192.168.1.1", "192.168.1.2", "192.168.1.44"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "10.0.5.0/24 via 192.168.1.44",
				"192.168.1.1/32 via 192.168.1.1", "192.168.1.2/32 via 192.168.1.2", "192.168.1.44/32 via 192.168.1.44",
			}},
		{"the node is deleted", func() { o.Nodes = o.Nodes[:3] }, []string{"192.168.1.1", "192.168.1.2"},
			[]string{
				"10.0.1.0/24 via 192.168.1.1", "10.0.2.0/24 via 192.168.1.2", "192.168.1.1/32 via 192.168.1.1",
				"192.168.1.2/32 via 192.168.1.2",
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.do()
			if err := w.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.nodes, fdbNodes(t, k)); diff != "" {
				t.Errorf("forwarding entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.nodes, neighbors(t, k)); diff != "" {
				t.Errorf("neighbours, and their forwarding entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.nodes, overlaySenders(t, k)); diff != "" {
				t.Errorf("accepted senders (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.routes, toNodes(t, k)); diff != "" {
				t.Errorf("routes to nodes (-want +got):\n%s", diff)
			}
			before := k.Writes
			if err := w.pass(t.Context()); err != nil || k.Writes != before {
				t.Errorf("a second pass: %v, %d writes", err, k.Writes-before)
			}
		})
	}
}

// A node without a gateway has FDB entries for the nodes with a gateway only.
func TestOnlyGatewayNodesAffectOtherNodes(t *testing.T) {
	w, k, o := newWorker(t)
	o.Gateways = []string{"rome-1"}
	w.observe(leaseOf("rome-1"))
	pass := func(what string, writes bool, want string) {
		t.Helper()
		before := k.Writes
		if err := w.pass(t.Context()); err != nil || (k.Writes > before) != writes {
			t.Errorf("%s: %v, %d writes", what, err, k.Writes-before)
		}
		if got := fdbNodes(t, k); len(got) != 1 || got[0] != want {
			t.Errorf("%s: FDB entries of %v, want %s", what, got, want)
		}
	}
	at := slices.IndexFunc(o.Nodes, func(n *corev1.Node) bool { return n.Name == "rome-1" })
	pass("at first", true, "192.168.1.1")
	o.Nodes = append(o.Nodes, nodeAt("rome-4", "192.168.1.4", "10.0.4.0/24"))
	pass("another node is added", false, "192.168.1.1")
	o.Nodes[at] = nodeAt("rome-1", "192.168.1.11", "10.0.1.0/24")
	pass("the gateway's node has another address", true, "192.168.1.11")
	pass("nothing changes", false, "192.168.1.11")
}

// fdbNodes returns the nodes that have an FDB entry.
func fdbNodes(t *testing.T, k *fake.Kernel) []string {
	t.Helper()
	all, err := k.FDBEntries(model.OverlayLink)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, f := range all {
		nodes = append(nodes, f.Node.String())
	}
	slices.Sort(nodes)
	return nodes
}

// neighbors returns the nodes that have a neighbour entry, and marks those whose MAC is not the one in their FDB
// entry.
func neighbors(t *testing.T, k *fake.Kernel) []string {
	t.Helper()
	all, err := k.Neighbors(model.OverlayLink)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := k.FDBEntries(model.OverlayLink)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range all {
		node := n.Addr.String()
		if !slices.Contains(entries, model.FDBEntry{Link: n.Link, MAC: n.MAC, Node: n.Addr}) {
			node += " with another MAC than its FDB entry"
		}
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

// overlaySenders returns the nodes from which packets on the overlay are accepted.
func overlaySenders(t *testing.T, k *fake.Kernel) []string {
	t.Helper()
	chains, _, err := k.Chains(model.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, c := range chains {
		if !strings.HasPrefix(c.Name, "LIQO-FROM-NODES") {
			continue
		}
		for _, rule := range c.Rules {
			if node, ok := strings.CutSuffix(rule, "/32 -j ACCEPT"); ok {
				nodes = append(nodes, strings.TrimPrefix(node, "-s "))
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// toNodes returns the routes to other nodes.
func toNodes(t *testing.T, k *fake.Kernel) []string {
	t.Helper()
	all, err := k.Routes()
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, r := range all {
		if r.Table == model.NodesTable {
			routes = append(routes, fmt.Sprintf("%s via %s", r.Dst, r.Via))
		}
	}
	slices.Sort(routes)
	return routes
}

func TestGatewayLeftoversAreRemovedAfterADelay(t *testing.T) {
	w, _, o := newWorker(t)
	clock := w.clock.(*clocktesting.FakeClock)
	tidied, fail := 0, false
	w.tidy = func() error {
		tidied++
		if fail {
			return errors.New("no luck")
		}
		return nil
	}
	w.observe(leaseOf("rome-1"))
	pass := func(after time.Duration, want int, gateways ...string) {
		t.Helper()
		clock.Step(after)
		o.Gateways = gateways
		if err := w.pass(t.Context()); (err != nil) != fail {
			t.Errorf("pass: %v", err)
		}
		if tidied != want {
			t.Errorf("tidied %d times, want %d", tidied, want)
		}
	}
	pass(0, 0, "rome-1", "rome-3")
	pass(time.Hour, 0, "rome-1", "rome-3")
	pass(time.Hour, 0, "rome-1")
	pass(cleanupDelay-time.Second, 0, "rome-1")
	pass(time.Second/2, 0, "rome-1", "rome-3") // the gateway has restarted
	pass(cleanupDelay, 0, "rome-1")
	fail = true
	pass(cleanupDelay, 1, "rome-1")
	fail = false
	pass(time.Second, 2, "rome-1")
	pass(time.Hour, 2, "rome-1")
}

func TestGatewayLeftoversAreRemovedWithTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		gateways []string
		want     int
	}{
		"no gateway":                             {nil, 1},
		"gateways are on other nodes":            {[]string{"rome-1", "rome-2"}, 1},
		"a gateway on this node and another one": {[]string{"rome-1", "rome-3"}, 0},
		"a gateway on this node only":            {[]string{"rome-3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, o := newWorker(t)
			tidied := 0
			w.tidy = func() error { tidied++; return nil }
			w.observe(leaseOf("rome-3"))
			o.Gateways = test.gateways
			if err := w.end(); err != nil || tidied != test.want {
				t.Errorf("tidied %d times, want %d: %v", tidied, test.want, err)
			}
		})
	}
}
