// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel/fake"
)

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

func newWorker(t *testing.T) (*worker, *fake.Kernel, *agent.Objects) {
	t.Helper()
	own, err := agent.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	o := &agent.Objects{
		TunnelEndpoints: []*v1alpha1.TunnelEndpoint{{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.TunnelEndpointSpec{
				ClusterID: "id-of-milan", PublicKey: strings.Repeat("A", 42) + "E=",
				Local:  []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.2.0.0/16"}},
				Remote: []v1alpha1.CIDRMapping{{CIDR: "10.0.0.0/16", Mapped: "10.1.0.0/16"}},
			},
		}},
	}
	for name, address := range map[string]string{"rome-1": "192.168.1.1", "rome-2": "192.168.1.2", "rome-3": "192.168.1.3"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		o.Nodes = append(o.Nodes, n)
	}
	k := fake.New()
	return &worker{
		self: "rome-3", cluster: agent.Cluster{Port: 51820, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, MTU: 1500},
		objects: func() (agent.Objects, error) { return *o, nil }, applier: apply.New(k), metrics: own,
		clock: clocktesting.NewFakeClock(time.Unix(0, 0)), tidy: func() error { return nil },
	}, k, o
}

func TestRoutesFollowTheLeaseAndASecondPassWritesNothing(t *testing.T) {
	w, k, o := newWorker(t)
	o.Gateways = []string{"rome-1", "rome-2"}
	if err := w.pass(t.Context()); err != nil || k.Writes != 0 {
		t.Errorf("before anybody was active: %v, %d writes", err, k.Writes)
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
		if changed := w.follow(test.lease); changed != test.changed {
			t.Errorf("%v changes something: %v", test.lease, changed)
		}
		if err := w.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := k.Writes
		if err := w.pass(t.Context()); err != nil || k.Writes != before {
			t.Errorf("a second pass: %v, %d writes", err, k.Writes-before)
		}
		routes, err := k.Routes()
		if err != nil {
			t.Fatal(err)
		}
		if test.via == "" {
			if len(routes) != 0 {
				t.Errorf("routes to nobody: %v", routes)
			}
			continue
		}
		if len(routes) != 1 || routes[0].Dst.String() != "10.1.0.0/16" || routes[0].Via.String() != test.via {
			t.Errorf("%v, and not by %s", routes, test.via)
		}
	}
	if _, err := agent.CleanRoute(k); err != nil {
		t.Fatal(err)
	}
	if left := k.Dump(); strings.Contains(left, "liqo") || strings.Contains(left, "LIQO") {
		t.Errorf("left behind:\n%s", left)
	}
}

func TestWhatAGatewayHasLeftIsRemovedAfterAWhile(t *testing.T) {
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
	w.follow(leaseOf("rome-1"))
	pass := func(after time.Duration, want int, gateways ...string) {
		t.Helper()
		clock.Step(after)
		o.Gateways = gateways
		if err := w.pass(t.Context()); (err != nil) != fail {
			t.Errorf("the pass: %v", err)
		}
		if tidied != want {
			t.Errorf("tidied %d times, not %d", tidied, want)
		}
	}
	pass(0, 0, "rome-1", "rome-3")
	pass(time.Hour, 0, "rome-1", "rome-3")
	pass(time.Hour, 0, "rome-1")
	pass(grace-time.Second, 0, "rome-1")
	pass(time.Second/2, 0, "rome-1", "rome-3") // it came back
	pass(grace, 0, "rome-1")
	fail = true
	pass(grace, 1, "rome-1")
	fail = false
	pass(time.Second, 2, "rome-1")
	pass(time.Hour, 2, "rome-1")
}

func TestWhatAGatewayHasLeftIsRemovedWhenTheAgentEndsForGood(t *testing.T) {
	for name, test := range map[string]struct {
		gateways []string
		want     int
	}{
		"no gateway is left":           {nil, 1},
		"gateways are on other nodes":  {[]string{"rome-1", "rome-2"}, 1},
		"one is still on this node":    {[]string{"rome-1", "rome-3"}, 0},
		"the only one is on this node": {[]string{"rome-3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, o := newWorker(t)
			tidied := 0
			w.tidy = func() error { tidied++; return nil }
			w.follow(leaseOf("rome-3"))
			o.Gateways = test.gateways
			if err := w.end(); err != nil || tidied != test.want {
				t.Errorf("tidied %d times, not %d: %v", tidied, test.want, err)
			}
		})
	}
}
