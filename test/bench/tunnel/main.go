// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench-tunnel measures the network between clusters in network namespaces: its throughput
// compared with plain WireGuard, the time to write thousands of objects to the kernel, the packet
// loss during a failover, and the usage of idle agents. It prints one table in Markdown. Run it
// with "unshare --net --mount".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/nearest"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/netns/world"
)

type options struct {
	runs    int
	parts   []string
	period  time.Duration
	profile string
}

// parts are the measurements in the order in which they run. idle is first, because the garbage of
// other measurements would be collected during it.
var parts = []struct {
	name    string
	measure func(context.Context, options) ([]row, error)
}{
	{"idle", measureIdle},
	{"traffic", measureTraffic},
	{"scale", measureScale},
	{"failover", measureFailover},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-tunnel:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{}
	flags := pflag.NewFlagSet("bench-tunnel", pflag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 3, "measurements of each value; the table shows their median and spread")
	only := flags.String("parts", "idle,traffic,scale,failover", "what to measure")
	flags.DurationVar(&o.period, "period", time.Second, "how long traffic flows in one turn")
	flags.StringVar(&o.profile, "profile", "", "file to write a profile of the processors' use to, for go tool pprof")
	if err := flags.Parse(args); err != nil {
		return o, nearest.FlagError(flags, err)
	}
	for name := range strings.SplitSeq(*only, ",") {
		known := false
		for _, p := range parts {
			known = known || p.name == name
		}
		if !known {
			return o, fmt.Errorf("--parts %q: use some of idle, traffic, scale and failover, separated by commas", *only)
		}
		o.parts = append(o.parts, name)
	}
	if o.runs < 1 {
		return o, fmt.Errorf("--runs %d: at least one is needed", o.runs)
	}
	if o.period <= 0 {
		return o, fmt.Errorf("--period %s: use a positive duration", o.period)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard())
	if err := world.Prepare(); err != nil {
		return err
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var rows []row
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		some, err := p.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		rows = append(rows, some...)
	}
	fmt.Fprintf(out,
		"\n%s, WireGuard by %s\nTwo clusters of two nodes each, made of network namespaces. Medians of %d runs, in "+
			"parentheses from the least to the most.\n\n",
		figures.Machine(), implementation, o.runs)
	figures.Line(out, "measure", "bare WireGuard", "the fabric", "ratio", "budget")
	figures.Line(out, "---", "---", "---", "---:", "---")
	for _, r := range rows {
		figures.Line(out, r.measure, r.bare, r.fabric, r.ratio, r.budget)
	}
	return nil
}

// row is one line of the table.
type row struct{ measure, bare, fabric, ratio, budget string }

// progress prints the current measurement.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
