// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

// Budgets of all processes of the product together while pods are offloaded: processor cores in
// both clusters, MB of memory in each cluster, and Mbit/s between the clusters.
const (
	footprintPods          = 100
	footprintCPUBudget     = 0.5
	footprintMemoryBudget  = 400.0
	footprintTrafficBudget = 5.0
)

// crossed returns the number of bytes sent between the clusters.
func (b *bench) crossed(ctx context.Context) (int64, error) {
	links, err := b.playground.Links(ctx, "router")
	if err != nil {
		return 0, err
	}
	return between(links)
}

// between returns the number of bytes that the clusters sent to each other. The router has an
// interface to each cluster, and one to this program. It counts a byte between the clusters twice,
// once at each cluster's interface. A byte between a cluster and this program is counted at the
// cluster's interface and at that of the program, whose counters are subtracted.
func between(links map[string]harness.Link) (int64, error) {
	const host, rome, milan = "host", "br0", "br1"
	var sum int64
	for name, sign := range map[string]int64{rome: 1, milan: 1, host: -1} {
		link, ok := links[name]
		if !ok {
			return 0, fmt.Errorf("the router has no interface %s", name)
		}
		sum += sign * (link.Received + link.Sent)
	}
	return sum / 2, nil
}

// own returns the processor time of the product's programs.
func (u usage) own() (sum time.Duration) {
	for key, used := range u {
		if _, program, _ := strings.Cut(key, " "); ownPrograms[program] {
			sum += used
		}
	}
	return sum
}

// footprintRows returns the rows for the usage of the product's processes while pods are offloaded.
// It divides the usage until the clusters are quiet by the time until the pods are Ready, which is
// shorter, so the results are upper bounds.
func footprintRows(samples []sample, held []memory) []row {
	var cpu, traffic figures.Series
	for _, s := range samples {
		if s.size == footprintPods && s.where == onVirtual {
			cpu = append(cpu, s.creating.own().Seconds()/s.created.Seconds())
			traffic = append(traffic, float64(s.crossed)*8/1e6/s.created.Seconds())
		}
	}
	if len(cpu) == 0 {
		return nil
	}
	rss := map[string]int64{} // by cluster
	for _, m := range held {
		if m.size == footprintPods {
			for _, p := range m.processes {
				rss[p.cluster] += p.rss
			}
		}
	}
	pods := fmt.Sprint(footprintPods)
	rows := []row{{"product while pods are created, CPU", pods, "–", cpu.Format(" cores"), "–",
		figures.AtMost(cpu.Median(), footprintCPUBudget, " cores")}}
	for _, cluster := range slices.Sorted(maps.Keys(rss)) {
		sum := megabytes(rss[cluster])
		rows = append(rows, row{"product on " + cluster + ", memory", pods, "–", figures.Number(sum) + " MB", "–",
			figures.AtMost(sum, footprintMemoryBudget, " MB")})
	}
	return append(rows, row{"traffic between the clusters while pods are created", pods, "–", traffic.Format(" Mbit/s"),
		"–", figures.AtMost(traffic.Median(), footprintTrafficBudget, " Mbit/s")})
}
