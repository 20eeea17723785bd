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

// stages are what traffic goes through. Each is compared with the bare one above
// it, which has as many peers.
var stages = []struct {
	name     string
	bare     bool
	disjoint bool
	peers    int
}{
	{name: "bare WireGuard", bare: true},
	{name: "different CIDRs", disjoint: true},
	{name: "the same CIDRs, NETMAP"},
	{name: fmt.Sprintf("bare WireGuard, %d more peers", crowd), bare: true, peers: crowd},
	{name: fmt.Sprintf("the same CIDRs, %d more peers", crowd), peers: crowd},
}

// kinds are the kinds of traffic.
var kinds = []struct {
	name, unit string
	scale      float64
	measure    func(flow, context.Context, time.Duration) (float64, error)
	budget     float64
}{
	{"TCP, one connection", " Mbit/s", 1e-6, flow.stream, streamBudget},
	{"UDP of 64 bytes to and fro", " packets/s", 1, flow.packets, 0},
	{"HTTP, a connection a request", "/s", 1, flow.requests, 0},
}

// measureTraffic measures every kind of traffic through every stage, from a pod
// on a node without a gateway to another one.
func measureTraffic(ctx context.Context, o options) ([]row, error) {
	values := make(map[string]figures.Series) // by stage and kind
	for run := range o.runs {
		for _, stage := range stages {
			measured, err := through(ctx, o, stage.bare, stage.disjoint, stage.peers)
			if err != nil {
				return nil, fmt.Errorf("through %s: %w", stage.name, err)
			}
			progress("run %d, %s: %s", run+1, stage.name, described(measured))
			for i, kind := range kinds {
				values[stage.name+kind.name] = append(values[stage.name+kind.name], measured[i])
			}
		}
	}
	var rows []row
	for _, kind := range kinds {
		var plain figures.Series
		for _, stage := range stages {
			ours := values[stage.name+kind.name]
			if stage.bare {
				plain = ours
				continue
			}
			ratio := ours.Median() / plain.Median()
			rows = append(rows, row{
				kind.name + "; " + stage.name, plain.Format(kind.unit), ours.Format(kind.unit),
				fmt.Sprintf("%.2f×", ratio), figures.AtLeast(ratio, kind.budget, "×"),
			})
		}
	}
	return rows, nil
}

// through measures every kind of traffic through one stage.
func through(ctx context.Context, o options, isBare, disjoint bool, peers int) (measured []float64, err error) {
	var w *world.World
	if isBare {
		b := &bare{peers: peers}
		if err := b.start(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.stop()) }()
		w = b.World
	} else {
		f := &fabric{moreOfRome: manyTunnels(peers, 1), moreOfMilan: manyTunnels(peers, 1)}
		if err := f.start(ctx, world.Options{Iptables: "nft", Disjoint: disjoint}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.stop()) }()
		// What the agents do at their start is not what traffic costs.
		if err := f.quiet(ctx); err != nil {
			return nil, err
		}
		w = f.World
	}
	traffic := flow{from: w.Rome.Nodes[1].Pod, to: w.Milan.Nodes[1].Pod, address: milanPod}
	for _, kind := range kinds {
		value, err := kind.measure(traffic, ctx, o.period)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		measured = append(measured, value*kind.scale)
	}
	return measured, nil
}

func described(measured []float64) string {
	text := ""
	for i, kind := range kinds {
		if i > 0 {
			text += ", "
		}
		text += figures.Number(measured[i]) + kind.unit
	}
	return text
}
