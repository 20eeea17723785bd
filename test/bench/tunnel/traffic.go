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
	// streamBudget is the minimal ratio of the TCP throughput to the throughput of plain WireGuard.
	streamBudget = 0.85
	// crowd is the number of idle WireGuard peers in the largest network of the benchmark, in addition to the peer that
	// traffic is sent to.
	crowd = 1000
)

// contests are the networks whose traffic is compared with plain WireGuard with the same number of
// peers. Both networks exist at the same time, and measurements alternate, because the speed of a
// machine varies.
var contests = []struct {
	name     string
	disjoint bool
	peers    int
}{
	{"different CIDRs", true, 0},
	{"the same CIDRs, NETMAP", false, 0},
	{fmt.Sprintf("the same CIDRs, %d more peers", crowd), false, crowd},
}

// kinds are the kinds of traffic. Kinds with a budget are measured more often.
var kinds = []struct {
	name, unit string
	scale      float64
	measure    func(flow, context.Context, time.Duration) (float64, error)
	turns      int
	budget     float64
}{
	{"TCP, one connection", " Mbit/s", 1e-6, flow.stream, 7, streamBudget},
	{"UDP of 64 bytes in both directions", " packets/s", 1, flow.packets, 2, 0},
	{"HTTP, one connection per request", "/s", 1, flow.requests, 2, 0},
}

// contest has the results of measurements of one kind of traffic in one network: with plain WireGuard, with the agents,
// and the ratios of both.
type contest struct{ plain, fabric, ratios figures.Series }

// measureTraffic measures every kind of traffic in every network, between pods whose nodes have no
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

// compare measures every kind of traffic alternately with the agents and with plain WireGuard, and
// appends the values to results.
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
	// The start of the agents must not affect the measurement.
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
