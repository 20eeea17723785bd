// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/instance"
	"liqo.io/federation/hack/playground/network"
)

type upFlags struct {
	workers, fakeNodes         int
	audit, durable             bool
	pods, services, pool       string
	clusterPods, clusterServes []string
}

func newUp(c *common) *cobra.Command { return newUpWith(c, &upFlags{}) }

func newUpWith(c *common, f *upFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up [CLUSTER...]",
		Short: "Bring clusters up",
		Long: `up brings the named clusters up and returns when they are ready. It builds what
is not built yet.

Without names these are the clusters that the instance has, or rome and milan.

Called again it starts what has died, adds clusters and nodes that are new, and
leaves the rest alone: an up that was interrupted or killed is simply repeated.
All clusters use the same pod and Service CIDRs unless told otherwise.`,
		Example: `  playground up
  playground up rome milan --workers 2 --cluster-pod-cidr milan=10.80.0.0/16
  playground up --instance bench one --workers 0 --fake-nodes 10 --audit`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 0 {
				names = instance.ClusterNames(c.instance)
			}
			want, err := f.want(cmd, c, names)
			if err != nil {
				return useError{err}
			}
			if err := checkMachine(); err != nil {
				return err
			}
			if err := network.CheckKernel(); err != nil {
				return err
			}
			steps := instance.NewSteps(cmd.OutOrStdout())
			tools, err := c.buildClusters(cmd.Context(), f.fakeNodes > 0)
			if err != nil {
				return err
			}
			steps.Done("build", "programs in %s", tools.Bin)
			return instance.Up(cmd.Context(), want, tools, steps)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.workers, "workers", 1, "nodes of each cluster beside its control plane")
	flags.IntVar(&f.fakeNodes, "fake-nodes", 0, "nodes of each cluster whose pods are Running at once, for benchmarks; label type=kwok, taint playground.liqo.io/fake=true:NoSchedule")
	flags.BoolVar(&f.audit, "audit", false, "log every API request below the state directory")
	flags.BoolVar(&f.durable, "durable", false, "have etcd wait for the disk on every write, as clusters do that outlive their machine; for benchmarks")
	flags.StringVar(&f.pods, "pod-cidr", instance.DefaultPodCIDR.String(), "addresses of pods, the same in all clusters")
	flags.StringVar(&f.services, "service-cidr", instance.DefaultServiceCIDR.String(), "addresses of Services, the same in all clusters")
	flags.StringArrayVar(&f.clusterPods, "cluster-pod-cidr", nil, "CLUSTER=CIDR: addresses of pods in one cluster")
	flags.StringArrayVar(&f.clusterServes, "cluster-service-cidr", nil, "CLUSTER=CIDR: addresses of Services in one cluster")
	flags.StringVar(&f.pool, "node-cidr-pool", instance.DefaultPool.String(), "where free addresses for nodes are taken from")
	return cmd
}

// want turns the flags into what is asked for. Flags that are not given leave
// existing clusters as they are.
func (f *upFlags) want(cmd *cobra.Command, c *common, names []string) (instance.Want, error) {
	w := instance.Want{Instance: c.instance, Dir: c.stateDir, Clusters: names,
		PodCIDRs: map[string]netip.Prefix{}, ServiceCIDRs: map[string]netip.Prefix{}}
	given := cmd.Flags().Changed
	if given("workers") {
		w.Workers = &f.workers
	}
	if given("fake-nodes") {
		w.FakeNodes = &f.fakeNodes
	}
	if given("audit") {
		w.Audit = &f.audit
	}
	if given("durable") {
		w.Durable = &f.durable
	}
	var err error
	if w.Pool, err = netip.ParsePrefix(f.pool); err != nil {
		return w, fmt.Errorf("--node-cidr-pool: %w", err)
	}
	for _, r := range []struct {
		all, one string
		value    string
		pairs    []string
		into     map[string]netip.Prefix
	}{
		{"pod-cidr", "cluster-pod-cidr", f.pods, f.clusterPods, w.PodCIDRs},
		{"service-cidr", "cluster-service-cidr", f.services, f.clusterServes, w.ServiceCIDRs},
	} {
		if given(r.all) {
			if r.into[""], err = netip.ParsePrefix(r.value); err != nil {
				return w, fmt.Errorf("--%s: %w", r.all, err)
			}
		}
		for _, pair := range r.pairs {
			cluster, value, found := strings.Cut(pair, "=")
			if !found || !slices.Contains(names, cluster) {
				return w, fmt.Errorf("--%s %q: use CLUSTER=CIDR with one of the clusters %v", r.one, pair, names)
			}
			if r.into[cluster], err = netip.ParsePrefix(value); err != nil {
				return w, fmt.Errorf("--%s: %w", r.one, err)
			}
		}
	}
	return w, nil
}
