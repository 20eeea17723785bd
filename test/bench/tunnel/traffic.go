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
	// streamBudget is what part of bare WireGuard's throughput there has to be.
	streamBudget = 0.85
	// crowd is how many more peers there are at most.
	crowd = 1000
)

// contests are what traffic goes through beside bare WireGuard that has as many
// peers. Both are there at the same time and have turns, since a machine is not
// as fast in one minute as in the next.
var contests = []struct {
	name     string
	disjoint bool
	peers    int
}{
	{"different CIDRs", true, 0},
	{"the same CIDRs, NETMAP", false, 0},
	{fmt.Sprintf("the same CIDRs, %d more peers", crowd), false, crowd},
}

// kinds are the kinds of traffic. What has a budget has more turns in a run.
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

// contest is what was measured of one, of one kind of traffic: a value for each turn.
type contest struct{ plain, ours, ratios figures.Series }

// measureTraffic measures every kind of traffic in every contest, from a pod on a
// node without a gateway to another one.
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
				progress("run %d, %s, %s: %s beside %s, %s", run+1, c.name, kind.name,
					all[i][j].ours.Format(kind.unit), all[i][j].plain.Format(kind.unit), all[i][j].ratios.Format("×"))
			}
		}
	}
	var rows []row
	for j, kind := range kinds {
		for i, c := range contests {
			one := all[i][j]
			rows = append(rows, row{
				kind.name + "; " + c.name, one.plain.Format(kind.unit), one.ours.Format(kind.unit),
				one.ratios.Format("×"), figures.AtLeast(one.ratios.Median(), kind.budget, "×"),
			})
		}
	}
	return rows, nil
}

// compare has the fabric and bare WireGuard take turns at every kind of traffic.
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
	// What the agents do at their start is not what traffic costs.
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
			ours, err := kind.measure(flowOf(f.World), ctx, o.period)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			r := &results[i]
			r.plain, r.ours = append(r.plain, plain*kind.scale), append(r.ours, ours*kind.scale)
			r.ratios = append(r.ratios, ours/plain)
		}
	}
	return nil
}
