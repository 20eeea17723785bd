// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/netns/world"
)

const (
	// idleBudget is the maximal usage of an agent, in percent of a core.
	idleBudget = 1.0
	// idlePeriod is the duration of a measurement, and the resync interval of the agents: each
	// agent makes one pass. The default interval is three times as long.
	idlePeriod = 10 * time.Second
)

// measureIdle measures processor usage and kernel writes of idle agents: a gateway and two route
// agents in each of two connected clusters.
func measureIdle(ctx context.Context, o options) (rows []row, err error) {
	f := &fabric{resync: idlePeriod}
	if err := f.start(ctx, world.Options{Iptables: "nft"}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	agents := f.agents()
	if err := f.bothInitiate(ctx); err != nil {
		return nil, err
	}
	if err := f.quiet(ctx); err != nil {
		return nil, err
	}
	var used, wrote figures.Series
	for run := range o.runs {
		cpuBefore, writesBefore, err := spent(agents)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := wait(ctx, idlePeriod, nil); err != nil {
			return nil, err
		}
		cpu, writes, err := spent(agents)
		if err != nil {
			return nil, err
		}
		used = append(used, 100*(cpu-cpuBefore).Seconds()/time.Since(began).Seconds())
		wrote = append(wrote, writes-writesBefore)
		progress("run %d, idle: %.2f %% of a core, %g kernel writes", run+1, used[run], wrote[run])
	}
	each := make(figures.Series, len(used))
	for i, v := range used {
		each[i] = v / float64(len(agents))
	}
	return []row{
		{fmt.Sprintf("idle: CPU of an agent, mean of %d", len(agents)), "–", each.Format(" % of a core"), "–", figures.AtMost(each.Median(), idleBudget, " %")},
		{fmt.Sprintf("idle: CPU of all %d", len(agents)), "–", used.Format(" % of a core"), "–", figures.AtMost(used.Median(), idleBudget, " %")},
		{"idle: kernel writes", "–", wrote.Format(""), "–", figures.AtMost(slices.Max(wrote), 0, "")},
	}, nil
}

// spent returns the processor time of this process, which runs the agents, and of its children, and
// the number of the agents' kernel writes.
func spent(agents []*world.Process) (cpu time.Duration, wrote float64, err error) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			return 0, 0, err
		}
		cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, p := range agents {
		n, err := p.Writes()
		if err != nil {
			return 0, 0, err
		}
		wrote += n
	}
	return cpu, wrote, nil
}
