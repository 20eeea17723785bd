// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the overhead of offloading from cluster rome, the consumer, to cluster milan, the provider,
// compared with the same work without offloading in the same run. It prints tables in Markdown.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/nearest"
	"liqo.io/federation/test/harness"
)

type options struct {
	pods      []int
	runs      int
	many      int
	only      string
	instance  string
	keep      bool
	breakdown bool
	// storage selects parts of the storage measurements by name. Empty selects all of them.
	storage []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{}
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	pods := flags.String("pods", "100,500,1000", "sizes of the Deployments to measure, smallest first")
	flags.IntVar(&o.runs, "runs", 3, "measurements of each size; the table shows their median and spread")
	flags.IntVar(&o.many, "many", 0,
		"fill the virtual node with this number of pods, for example 10000, and print the memory; 0 skips it")
	flags.StringVar(&o.only, "only", "", "measure only one part: pods, api or storage")
	storage := flags.String("storage", "",
		"measure only these parts of storage, separated by commas: provisioning, requests, moves")
	flags.StringVar(&o.instance, "instance", "bench", "name of the playground's instance")
	flags.BoolVar(&o.keep, "keep", false, "use an instance that exists, and do not delete it at the end")
	flags.BoolVar(&o.breakdown, "breakdown", false,
		"also print which programs use the processors and who sends which requests at the largest size")
	if err := flags.Parse(args); err != nil {
		return o, nearest.FlagError(flags, err)
	}
	for field := range strings.SplitSeq(*pods, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > 20000 {
			return o, fmt.Errorf("--pods %q: use numbers from 1 to 20000, separated by commas", *pods)
		}
		o.pods = append(o.pods, n)
	}
	if !slices.Contains([]string{"", "pods", "api", "storage"}, o.only) {
		return o, fmt.Errorf("--only %q: use pods, api or storage", o.only)
	}
	for part := range strings.SplitSeq(*storage, ",") {
		switch {
		case part == "":
		case slices.ContainsFunc(storageParts, func(p storagePart) bool { return p.name == part }):
			o.storage = append(o.storage, part)
		default:
			return o, fmt.Errorf("--storage %q: use provisioning, requests or moves, separated by commas", *storage)
		}
	}
	if o.many < 0 || o.many > 20000 {
		return o, fmt.Errorf("--many %d: use a number from 0 to 20000", o.many)
	}
	if o.runs < 1 {
		return o, fmt.Errorf("--runs %d: at least one is needed", o.runs)
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	root, err := harness.Root()
	if err != nil {
		return err
	}
	b := &bench{
		playground: &harness.Playground{Root: root, Instance: o.instance, Log: os.Stderr},
		options:    o,
	}
	if !o.keep {
		defer func() {
			// The context of the run may be cancelled.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			err = errors.Join(err, b.playground.Down(ctx))
		}()
	}
	if err := b.setUp(ctx); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	// Memory of idle processes is measured before any load, since processes return freed memory
	// late.
	if err := b.measureIdle(ctx); err != nil {
		return fmt.Errorf("measure the idle clusters: %w", err)
	}
	// The API is measured after pods, because its requests leave garbage in the API servers.
	// Storage is last, because it changes the installation of both clusters.
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{{"pods", b.measurePods}, {"api", b.measureAndReportAPI}, {"storage", b.measureStorage}} {
		if o.only != "" && o.only != part.name {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureAndReportAPI(ctx context.Context) error {
	samples, err := b.measureAPI(ctx)
	if err != nil {
		return fmt.Errorf("measure the API: %w", err)
	}
	reportAPI(os.Stdout, b.options.runs, samples)
	return nil
}

// measurePods measures offloaded pods, and reports them.
func (b *bench) measurePods(ctx context.Context) error {
	results, err := b.measure(ctx)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name    string
		measure func(context.Context) ([]row, error)
	}{
		{"what offloading adds to the start of a pod", b.measureStarts},
		{"restarts of the virtual kubelet", b.measureRestarts},
		{"endpoints of Services", b.measureServices},
		{"many pods", b.measureMany},
	} {
		rows, err := part.measure(ctx)
		if err != nil {
			return fmt.Errorf("measure %s: %w", part.name, err)
		}
		results.further = append(results.further, rows...)
	}
	return b.report(ctx, os.Stdout, results)
}
