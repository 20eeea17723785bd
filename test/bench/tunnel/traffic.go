// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/netns/world"
)

const (
	// streamBudget is the minimal throughput as a part of bare WireGuard's.
	streamBudget = 0.85
	// crowd is the maximal number of further peers.
	crowd = 1000
)

// contests are compared with bare WireGuard with as many peers. Both exist at the same time and
// alternate, since the speed of a machine varies.
var contests = []struct {
	name     string
	disjoint bool
	peers    int
}{
	{"different CIDRs", true, 0},
	{"the same CIDRs, NETMAP", false, 0},
	{fmt.Sprintf("the same CIDRs, %d more peers", crowd), false, crowd},
}

// kinds are the kinds of traffic. Those with a budget have more turns in a run.
var kinds = []struct {
	name, unit string
	scale      float64
	measure    func(flow, context.Context, time.Duration) (float64, error)
	turns      int
	budget     float64
}{
	{"TCP, one connection", " Mbit/s", 1e-6, flow.stream, 7, streamBudget},
	{"UDP of 64 bytes to and fro", " packets/s", 1, flow.packets, 2, 0},
	{"HTTP, a connection a request", "/s", 1, flow.requests, 2, 0},
}

// contest is the result of one kind of traffic: a value for each turn.
type contest struct{ plain, fabric, ratios figures.Series }

// measureTraffic measures every kind of traffic in every contest, between pods on nodes without an
// active gateway.
func measureTraffic(ctx context.Context, o options) ([]row, error) {
	all := make([][]contest, len(contests))
	for i := range contests {
		all[i] = make([]contest, len(kinds))
	}
	for run := range o.runs {
		for i, c := range contests {
			if err := compare(ctx, o, c.disjoint, c.peers, all[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for j, kind := range kinds {
				progress("run %d, %s, %s: %s compared with %s, %s", run+1, c.name, kind.name,
					all[i][j].fabric.Format(kind.unit), all[i][j].plain.Format(kind.unit), all[i][j].ratios.Format("×"))
			}
		}
	}
	var rows []row
	for j, kind := range kinds {
		for i, c := range contests {
			one := all[i][j]
			rows = append(rows, row{
				kind.name + "; " + c.name, one.plain.Format(kind.unit), one.fabric.Format(kind.unit),
				one.ratios.Format("×"), figures.AtLeast(one.ratios.Median(), kind.budget, "×"),
			})
		}
	}
	return rows, nil
}

// compare alternates between the fabric and bare WireGuard for every kind of traffic.
func compare(ctx context.Context, o options, disjoint bool, peers int, results []contest) (err error) {
	b := &bare{peers: peers}
	if err := b.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	f := &fabric{moreOfRome: manyTunnels(peers, 1), moreOfMilan: manyTunnels(peers, 1)}
	if err := f.start(ctx, world.Options{Iptables: "nft", Disjoint: disjoint}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	// The start of the agents is not part of the traffic.
	if err := f.quiet(ctx); err != nil {
		return err
	}
	flowOf := func(w *world.World) flow {
		return flow{from: w.Rome.Nodes[1].Pod, to: w.Milan.Nodes[1].Pod, address: milanPod}
	}
	for i, kind := range kinds {
		for range kind.turns {
			plain, err := kind.measure(flowOf(b.World), ctx, o.period)
			if err != nil {
				return fmt.Errorf("%s, bare: %w", kind.name, err)
			}
			value, err := kind.measure(flowOf(f.World), ctx, o.period)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			r := &results[i]
			r.plain, r.fabric = append(r.plain, plain*kind.scale), append(r.fabric, value*kind.scale)
			r.ratios = append(r.ratios, value/plain)
		}
	}
	return nil
}
