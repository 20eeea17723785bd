// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/netagent/model"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/netns/world"
)

// scaleBudget is the maximal time until all objects are in the kernel, in seconds.
const scaleBudget = 2.0

// crowded is a World in which only one node has a gateway and a route agent. The API has thousands of objects for them,
// and no peer is connected.
type crowded struct {
	*world.World
	api       *world.API
	processes []*world.Process
}

// sizes are the measured numbers of objects. holds returns the number of resulting objects in the kernel, and want is
// the expected number.
var sizes = []struct {
	name    string
	objects func() []runtime.Object
	one     func() runtime.Object
	holds   func(crowded) (int, error)
	want    int
}{
	{"1000 WireGuard peers", func() []runtime.Object { return manyTunnels(1000, 1) }, func() runtime.Object { return manyTunnels(1001, 1)[1000] }, crowded.peers, 1000},
	{"10,000 routes", func() []runtime.Object { return manyTunnels(1000, 10) }, func() runtime.Object { return manyTunnels(10001, 1)[10000] }, crowded.routed, 10000},
	{"10,000 address mappings", func() []runtime.Object { return append(manyMappings(10000), manyTunnels(2, 1)...) }, func() runtime.Object { return manyMappings(10001)[10000] }, crowded.translated, 10000},
}

func measureScale(ctx context.Context, o options) ([]row, error) {
	var rows []row
	for _, size := range sizes {
		var all, one figures.Series
		for run := range o.runs {
			took, more, err := hold(ctx, size.objects(), size.one(), size.holds, size.want)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", size.name, err)
			}
			progress("run %d, %s: %s, and one more %s", run+1, size.name, took.Round(time.Millisecond),
				more.Round(time.Millisecond))
			all, one = append(all, took.Seconds()), append(one, more.Seconds())
		}
		rows = append(rows,
			row{size.name + ", agents started → in the kernel", "–", all.Format(" s"), "–",
				figures.AtMost(all.Median(), scaleBudget, " s")},
			row{size.name + ", one more", "–", one.Format(" s"), "–", figures.AtMost(one.Median(), scaleBudget, " s")})
	}
	return rows, nil
}

// hold starts the agents of a node with objects, and later creates one more object. It returns took, the time until the
// kernel has the results of all objects, and more, the time until it has the result of the additional one.
func hold(ctx context.Context, objects []runtime.Object, one runtime.Object, holds func(crowded) (int, error),
	want int) (took, more time.Duration, err error) {
	c := crowded{}
	if c.World, err = world.New(world.Options{Iptables: "nft"}); err != nil {
		return 0, 0, err
	}
	defer func() {
		var errs []error
		for _, p := range c.processes {
			errs = append(errs, p.Stop())
		}
		err = errors.Join(append(append(errs, err), c.Close())...)
	}()
	c.api = newAPI(c.Rome, objects...)
	n := c.Rome.Nodes[0]
	if err := c.api.AddGatewayPod(ctx, n.Name); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	gateway, err := c.StartGateway(ctx, n, c.api, c.GatewayOptions(c.Rome, n))
	if err != nil {
		return 0, 0, err
	}
	c.processes = append(c.processes, gateway)
	route, err := c.StartRoute(ctx, n, c.api, c.Options(c.Rome, n))
	if err != nil {
		return 0, 0, err
	}
	c.processes = append(c.processes, route)
	done, err := c.until(ctx, make([]float64, len(c.processes)), want, holds)
	if err != nil {
		return 0, 0, err
	}
	took = done.Sub(began)
	implementation = n.Inner.Implementation(model.TunnelLink)

	if err := c.quiet(ctx); err != nil {
		return 0, 0, err
	}
	passed, err := c.passed()
	if err != nil {
		return 0, 0, err
	}
	began = time.Now()
	switch o := one.(type) {
	case *v1alpha1.TunnelEndpoint:
		_, err = c.api.Federation.FederationV1alpha1().TunnelEndpoints(world.Installation).Create(ctx, o,
			metav1.CreateOptions{})
	case *v1alpha1.AddressMapping:
		_, err = c.api.Federation.FederationV1alpha1().AddressMappings(world.Installation).Create(ctx, o,
			metav1.CreateOptions{})
	}
	if err != nil {
		return 0, 0, err
	}
	if done, err = c.until(ctx, passed, want+1, holds); err != nil {
		return 0, 0, err
	}
	return took, done.Sub(began), nil
}

// until waits until each agent has completed a pass, the numbers of completed passes differ from before, and holds
// returns want. It returns the time at which it observed the last pass. It reads the kernel only after a pass, because
// reading thousands of rules uses the processors that are measured.
func (c crowded) until(ctx context.Context, before []float64, want int,
	holds func(crowded) (int, error)) (done time.Time, err error) {
	var last []float64
	err = eventually(ctx, fmt.Sprintf("the kernel holds %d", want), func() (bool, error) {
		passed, err := c.passed()
		if err != nil || slices.Equal(passed, last) {
			return false, err
		}
		if slices.Equal(passed, before) || slices.Contains(passed, 0) {
			return false, nil
		}
		done, last = time.Now(), passed
		have, err := holds(c)
		return have == want, err
	})
	return done, err
}

// passed returns the number of successful passes of each agent.
func (c crowded) passed() ([]float64, error) {
	var all []float64
	for _, p := range c.processes {
		n, err := p.Passes()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// quiet waits until no agent has completed a pass for half a second.
func (c crowded) quiet(ctx context.Context) error {
	const calm = 500 * time.Millisecond
	last, since := []float64{}, time.Now()
	return eventually(ctx, "no agent makes a pass", func() (bool, error) {
		passed, err := c.passed()
		if !slices.Equal(passed, last) {
			last, since = passed, time.Now()
		}
		return time.Since(since) > calm, err
	})
}

func (c crowded) peers() (int, error) {
	tunnel, err := c.Rome.Nodes[0].Inner.Tunnel(model.TunnelLink)
	return len(tunnel.Peers), err
}

// routed returns the number of routes to peers that both the node and the gateway's namespace have.
func (c crowded) routed() (int, error) {
	node, err := c.Rome.Nodes[0].NS.Routes()
	if err != nil {
		return 0, err
	}
	inside, err := c.Rome.Nodes[0].Inner.Routes()
	onNode, within := 0, 0
	for _, r := range node {
		if r.Table == model.PeersTable {
			onNode++
		}
	}
	for _, r := range inside {
		if r.Link == model.TunnelLink {
			within++
		}
	}
	return min(onNode, within), err
}

// translated returns the number of addresses to which packets of a peer are translated.
func (c crowded) translated() (int, error) {
	chains, _, err := c.Rome.Nodes[0].Inner.Chains(model.IPv4)
	n := 0
	for _, chain := range chains {
		for _, rule := range chain.Rules {
			if strings.Contains(rule, "-j DNAT --to-destination 172.20.") {
				n++
			}
		}
	}
	return n, err
}

// manyTunnels returns the TunnelEndpoints of peers that have no endpoints, each with this number of
// CIDRs.
func manyTunnels(peers, cidrs int) []runtime.Object {
	var all []runtime.Object
	next := 0
	for i := range peers {
		var remote [][2]string
		for range cidrs {
			p := nthRange(next).String()
			remote = append(remote, [2]string{p, p})
			next++
		}
		local := [][2]string{{"10.0.0.0/16", "10.0.0.0/16"}, {"10.70.0.0/16", "10.80.0.0/16"}}
		all = append(all, world.EndpointOf(fmt.Sprintf("peer-%05d", i), nthKey(i), nil, local, remote))
	}
	return all
}

// nthKey returns the public key of the n-th peer.
func nthKey(n int) (key model.PublicKey) {
	binary.BigEndian.PutUint32(key[:], uint32(n+1))
	return key
}

func nthRange(n int) netip.Prefix {
	return netip.PrefixFrom(v4(10<<24|128<<16+uint32(n)<<8), 24)
}

// manyMappings returns AddressMappings, 10,000 for each peer.
func manyMappings(count int) []runtime.Object {
	var all []runtime.Object
	for i := range count {
		all = append(all, &v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("mapping-%05d", i), Namespace: world.Installation},
			Spec: v1alpha1.AddressMappingSpec{
				ClusterID: fmt.Sprintf("id-of-peer-%05d", i/10000), Address: v4(172<<24 | 20<<16 | uint32(i)).String(),
				Mapped: v4(10<<24 | 70<<16 | uint32(i)).String(),
			},
		})
	}
	return slices.Clip(all)
}

func v4(n uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], n)
	return netip.AddrFrom4(a)
}
