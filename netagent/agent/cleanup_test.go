// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/kernel/fake"
	"liqo.io/federation/netagent/model"
)

// setUp returns a node and the network namespace of its gateway, after the states of both agents were applied to
// them.
func setUp(t *testing.T) (node, inside *fake.Kernel) {
	t.Helper()
	node, inside = fake.New(), fake.New()
	node.Inner = inside
	in := model.Input{
		Node: "rome-1",
		Nodes: []model.Node{
			{Name: "rome-1", Addresses: []netip.Addr{addr("192.168.1.1")}, PodCIDRs: []netip.Prefix{prefix("10.0.1.0/24")}},
			{Name: "rome-2", Addresses: []netip.Addr{addr("192.168.1.2")}, PodCIDRs: []netip.Prefix{prefix("10.0.2.0/24")}},
		},
		Gateways: []string{"rome-1"}, Active: "rome-1",
		PodCIDRs: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd10::/48")},
		MTU:      1500, Port: 51820, PrivateKey: model.PrivateKey{1},
		Peers: []model.Peer{{
			ClusterID: "milan", PublicKey: model.PublicKey{2}, Endpoint: netip.MustParseAddrPort("172.16.0.2:51820"),
			Local: []netmap.CIDRMapping{
				{CIDR: prefix("10.0.0.0/16"), Mapped: prefix("10.2.0.0/16")},
				{CIDR: prefix("fd10::/48"), Mapped: prefix("fd12::/48")},
			},
			Remote: []netip.Prefix{prefix("10.102.0.0/16"), prefix("fd11::/48")},
		}},
	}
	host, within, refused, err := model.Gateway(in)
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	route, _, err := model.RouteAgent(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		on    kernel.Kernel
		state model.State
	}{{node, host}, {inside, within}, {node, route}} {
		if _, err := apply.New(step.on).Apply(step.state); err != nil {
			t.Fatal(err)
		}
	}
	if node.Dump() == "" || inside.Dump() == "" {
		t.Fatal("nothing was set up")
	}
	return node, inside
}

func clean(node, inside kernel.Kernel) error {
	_, gatewayErr := CleanGateway(node, inside)
	_, routeErr := CleanRoute(node)
	return errors.Join(gatewayErr, routeErr)
}

func TestCleanupIsCompleteWhenAnyOneCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for number := 1; ; number++ {
			node, inside := setUp(t)
			calls := 0
			fail := func(int) error {
				if calls++; calls == number {
					return unix.EINTR
				}
				return nil
			}
			node.Fail, inside.Fail = fail, fail
			if err := clean(node, inside); err != nil {
				t.Errorf("call %d failed: %v", number, err)
			}
			if left := node.Dump() + inside.Dump(); left != "" {
				t.Errorf("after call %d failed, these objects are left:\n%s", number, left)
			}
			if calls < number {
				if number < 10 {
					t.Fatalf("only %d calls were made", calls)
				}
				break
			}
		}
	})
}

func TestCleanupReturnsErrorsThatPersist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, inside := setUp(t)
		failure := errors.New("injected failure")
		inside.Fail = func(int) error { return failure }
		began := time.Now()
		if err := clean(node, inside); !errors.Is(err, failure) {
			t.Errorf("clean returned %v", err)
		}
		if took := time.Since(began); took > cleanAttempts*cleanPause {
			t.Errorf("cleanup took %s", took)
		}
		if left := node.Dump(); left != "" {
			t.Errorf("on the node, these objects are left:\n%s", left)
		}
	})
}
