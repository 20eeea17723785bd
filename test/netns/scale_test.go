// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// BenchmarkManyPeers measures from the model's input to the kernel of a
// gateway's node, in fresh namespaces, and then the pass that finds nothing to
// change.
func BenchmarkManyPeers(b *testing.B) {
	for _, size := range []struct{ peers, cidrs, mappings int }{{1000, 1, 0}, {1000, 10, 0}, {10, 1, 1000}} {
		name := fmt.Sprintf("peers=%d,routes=%d,mappings=%d", size.peers, size.peers*size.cidrs, size.peers*size.mappings)
		in := manyPeers(size.peers, size.cidrs, size.mappings)
		b.Run(name+"/first", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				g := newGateway(b)
				b.StartTimer()
				g.apply(b, in)
				b.StopTimer()
				g.close(b)
				b.StartTimer()
			}
		})
		b.Run(name+"/again", func(b *testing.B) {
			g := newGateway(b)
			defer g.close(b)
			g.apply(b, in)
			for b.Loop() {
				if writes := g.apply(b, in); writes != 0 {
					b.Fatalf("a second pass wrote %d times", writes)
				}
			}
		})
	}
}

// gatewayNode is a gateway's node by itself.
type gatewayNode struct {
	namespaces          []*kernel.Namespace
	host, inside, route *apply.Applier
}

func newGateway(b *testing.B) *gatewayNode {
	here, err := kernel.Current()
	if err != nil {
		b.Fatal(err)
	}
	node, err := here.Enter(filepath.Join(namespaces, "node"))
	if err != nil {
		b.Fatal(err)
	}
	inner, err := node.Enter(filepath.Join(namespaces, "gateway"))
	if err != nil {
		b.Fatal(err)
	}
	run(b, node, "ip link set lo up")
	run(b, node, "ip addr add 192.168.1.1/32 dev lo")
	return &gatewayNode{
		namespaces: []*kernel.Namespace{inner, node, here},
		host:       apply.New(node), inside: apply.New(inner), route: apply.New(node),
	}
}

func (g *gatewayNode) close(b *testing.B) {
	var errs []error
	for _, ns := range g.namespaces {
		errs = append(errs, ns.Close())
	}
	for _, name := range []string{"gateway", "node"} {
		errs = append(errs, kernel.RemoveNamespace(filepath.Join(namespaces, name)))
	}
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

func (g *gatewayNode) apply(b *testing.B, in model.Input) int {
	host, inside, refused, err := model.Gateway(in)
	if err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	route, _, err := model.RouteAgent(in)
	if err != nil {
		b.Fatal(err)
	}
	return applyTo(b, g.host, host) + applyTo(b, g.inside, inside) + applyTo(b, g.route, route)
}

func manyPeers(peers, cidrs, mappings int) model.Input {
	in := model.Input{
		Node: "rome-1", Nodes: []model.Node{{Name: "rome-1", Addresses: []netip.Addr{addr("192.168.1.1")}}},
		Gateways: []string{"rome-1"}, Active: "rome-1",
		PodCIDRs: []netip.Prefix{prefix("172.16.0.0/16")}, MTU: 1500, PrivateKey: model.PrivateKey{1}, Port: 51820,
	}
	next := uint32(10) << 24
	for i := range peers {
		p := model.Peer{ClusterID: fmt.Sprintf("cluster-%d", i), Local: []model.Remap{{Own: prefix("172.16.0.0/16"), Seen: prefix("10.255.0.0/16")}}}
		binary.BigEndian.PutUint32(p.PublicKey[:], uint32(i+1))
		for range cidrs {
			p.Remote = append(p.Remote, netip.PrefixFrom(v4(next), 24))
			next += 256
		}
		for j := range mappings {
			p.Mappings = append(p.Mappings, model.Mapping{Seen: v4(10<<24 | 200<<16 | uint32(j)), Target: v4(192<<24 | 168<<16 | 2<<8 | uint32(j))})
		}
		in.Peers = append(in.Peers, p)
	}
	return in
}

func v4(n uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], n)
	return netip.AddrFrom4(a)
}
