// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tests the product on two or three real clusters with kubectl, client-go and the
// generated clients. Its steps are in groups, which run alone and in any order.
package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"liqo.io/federation/test/harness"
)

// instance is the name of the playground instance. E2E_INSTANCE overrides it for tests that run at
// the same time.
var instance = cmp.Or(os.Getenv("E2E_INSTANCE"), "e2e")

var (
	playground *harness.Playground
	// naples is nil except in the layout "three".
	rome, milan, naples *harness.Cluster
	// clusters has all clusters of the layout.
	clusters []*harness.Cluster
	// uninstalled has a snapshot of each cluster without the product.
	uninstalled = map[*harness.Cluster]harness.Snapshot{}
)

// layouts are the clusters on which tests can run, with flags of the playground. Without flags, all
// clusters have the same CIDRs, and kube-proxy runs in iptables mode.
var layouts = map[string]struct{ clusters, options []string }{
	"same":     {two, []string{"--workers", "1"}},
	"disjoint": {two, []string{"--workers", "1", "--cluster-pod-cidr", "milan=10.80.0.0/16", "--cluster-service-cidr", "milan=10.112.0.0/16"}},
	"single":   {two, []string{"--workers", "0"}},
	"spread":   {two, []string{"--workers", "2"}},
	"wide":     {two, []string{"--workers", "3", "--kube-proxy-mode", "nftables"}},
	"three":    {[]string{"rome", "milan", "naples"}, []string{"--workers", "1"}},
}

var two = []string{"rome", "milan"}

var layout = flag.String("layout", "same",
	fmt.Sprintf("clusters to start: one of %v", slices.Sorted(maps.Keys(layouts))))

// TestMain creates the clusters, and deletes them after the tests. With E2E_KEEP=1 it uses existing
// clusters, and keeps them.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, stop, m.Run))
}

func run(ctx context.Context, stop func(), tests func() int) int {
	keep := os.Getenv("E2E_KEEP") == "1"
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	root, err := harness.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	playground = &harness.Playground{Root: root, Instance: instance, Log: os.Stderr}

	// The testing package cannot cancel running tests, so an interrupt cleans up and exits.
	var once sync.Once
	down := func() {
		once.Do(func() {
			if keep {
				fmt.Fprintf(os.Stderr, "the clusters are kept; delete them with: %s --instance %s down\n",
					playground.Bin("playground"), instance)
				return
			}
			// The context of the run may be cancelled.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := playground.Down(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	flag.Parse()
	if _, known := layouts[*layout]; !known {
		fmt.Fprintf(os.Stderr, "-layout=%s: use one of %v\n", *layout, slices.Sorted(maps.Keys(layouts)))
		return 2
	}
	if _, err := chosen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer down()
	defer stop()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-ctx.Done():
			down()
			os.Exit(130)
		case <-finished:
		}
	}()

	if err := setUp(ctx, keep); err != nil {
		fmt.Fprintln(os.Stderr, "set up:", err)
		return 1
	}
	code := tests()
	if code != 0 {
		// The logs of the nodes are deleted with the clusters, so they are copied before.
		if err := os.CopyFS(filepath.Join(artifacts(), "nodes"),
			os.DirFS(filepath.Join(playground.Dir(), "logs"))); err != nil {
			fmt.Fprintln(os.Stderr, "logs of the nodes:", err)
		}
	}
	return code
}

func setUp(ctx context.Context, keep bool) error {
	if err := os.RemoveAll(artifacts()); err != nil {
		return err
	}
	if !keep {
		if err := playground.Down(ctx); err != nil {
			return err
		}
	}
	chosen := layouts[*layout]
	if err := playground.Up(ctx, chosen.clusters, append(chosen.options, "--audit")...); err != nil {
		return err
	}
	if err := playground.LoadImages(ctx); err != nil {
		return err
	}
	for directory, tag := range map[string]string{"./tester": testerImage, "../shop": shopImage} {
		if err := loadProgram(ctx, directory, tag); err != nil {
			return err
		}
	}
	if *databases {
		for _, name := range []string{"postgres", "etcd"} {
			if err := playground.Load(ctx, filepath.Join(playground.Root, "_output", "samples", name+".tar")); err != nil {
				return err
			}
		}
	}
	known := map[string]**harness.Cluster{"rome": &rome, "milan": &milan, "naples": &naples}
	for _, name := range chosen.clusters {
		cluster, err := playground.Connect(name)
		if err != nil {
			return err
		}
		*known[name] = cluster
		clusters = append(clusters, cluster)
		if err := servesExports(ctx, cluster); err != nil {
			return err
		}
		if cluster.Helm(ctx, "status", harness.Release, "--namespace", harness.Namespace).Err == nil {
			continue
		}
		if uninstalled[cluster], err = cluster.Snapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loadProgram builds the program of a directory, and loads its image on all nodes.
func loadProgram(ctx context.Context, directory, tag string) error {
	dir, err := os.MkdirTemp("", "federation-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name, _, _ := strings.Cut(path.Base(tag), ":")
	program, tar := filepath.Join(dir, name), filepath.Join(dir, "image.tar")
	build := harness.Command(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, directory)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := harness.Run(build).Err; err != nil {
		return err
	}
	if err := playground.Image(ctx, program, tag, tar); err != nil {
		return err
	}
	return playground.Load(ctx, tar)
}

func artifacts() string {
	return filepath.Join(playground.Root, ".playground", "artifacts-"+instance)
}

// collected has the names of the tests whose artifacts are saved, so that each is saved once.
var collected sync.Map

// collect saves the objects and logs of all clusters if the test has failed. It must be called
// before cleanups delete anything.
func collect(t *testing.T) {
	if !t.Failed() {
		return
	}
	if _, already := collected.LoadOrStore(t.Name(), true); already {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := filepath.Join(artifacts(), filepath.FromSlash(t.Name()))
	err := playground.CollectDaemons(filepath.Join(dir, "nodes"))
	for _, cluster := range clusters {
		err = errors.Join(err, cluster.Collect(ctx, dir))
	}
	t.Logf("objects and logs of all clusters are in %s", dir)
	if err != nil {
		t.Logf("collecting them: %v", err)
	}
}
