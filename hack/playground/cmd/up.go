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
	"liqo.io/federation/hack/playground/state"
)

type upFlags struct {
	workers, fakeNodes              int
	audit, durable, networkPolicies bool
	kubeProxyMode                   string
	pods, services, pool            string
	clusterPods, clusterServes      []string
}

func newUp(c *common) *cobra.Command { return newUpWith(c, &upFlags{}) }

func newUpWith(c *common, f *upFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up [CLUSTER...]",
		Short: "Start clusters",
		Long: `up starts the named clusters and all other clusters of the instance, and returns
when they are ready. It builds missing programs first. For a new instance, the names
are rome and milan by default.

Run it again to start nodes and daemons that do not run, and to add clusters and
nodes. It restarts daemons whose program or configuration has changed. It changes no
setting of an existing cluster, but --network-policies starts and stops the
enforcement of NetworkPolicies. All clusters have the same pod and Service CIDRs by
default.`,
		Example: `  playground up
  playground up rome milan --workers 2 --cluster-pod-cidr milan=10.80.0.0/16
  playground up --instance bench one --workers 0 --fake-nodes 10 --audit
  playground up milan --network-policies`,
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
			if want.NetworkPolicies != nil {
				if err := requires(map[string]string{"ipset": "ipset"}); err != nil {
					return err
				}
			}
			if err := network.CheckKernel(); err != nil {
				return err
			}
			steps := instance.NewSteps(cmd.OutOrStdout())
			tools, err := c.buildClusters(cmd.Context(), want)
			if err != nil {
				return err
			}
			steps.Done("build", "programs in %s", tools.Bin)
			return instance.Up(cmd.Context(), want, tools, steps)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.workers, "workers", 1, "number of nodes of each cluster in addition to its control plane")
	flags.IntVar(&f.fakeNodes, "fake-nodes", 0, "number of nodes of each cluster that run no containers, for benchmarks; "+
		"label type=kwok, taint playground.liqo.io/fake=true:NoSchedule")
	flags.BoolVar(&f.audit, "audit", false, "write an audit log of every API request to the state directory")
	flags.BoolVar(&f.durable, "durable", false,
		"let etcd sync every write to disk as in production, for benchmarks")
	flags.BoolVar(&f.networkPolicies, "network-policies", false,
		"enforce NetworkPolicies with kube-router on every node, for tests; --network-policies=false stops it")
	flags.StringVar(&f.kubeProxyMode, "kube-proxy-mode", state.KubeProxyIPTables,
		"mode of kube-proxy in new clusters: "+state.KubeProxyIPTables+" or "+state.KubeProxyNFTables)
	flags.StringVar(&f.pods, "pod-cidr", instance.DefaultPodCIDR.String(), "pod CIDR of all clusters")
	flags.StringVar(&f.services, "service-cidr", instance.DefaultServiceCIDR.String(), "Service CIDR of all clusters")
	flags.StringArrayVar(&f.clusterPods, "cluster-pod-cidr", nil,
		"CLUSTER=CIDR: pod CIDR of one cluster, for example milan=10.80.0.0/16; may be repeated")
	flags.StringArrayVar(&f.clusterServes, "cluster-service-cidr", nil,
		"CLUSTER=CIDR: Service CIDR of one cluster; may be repeated")
	flags.StringVar(&f.pool, "node-cidr-pool", instance.DefaultPool.String(),
		"CIDR from which each cluster gets an unused /24 for its nodes")
	return cmd
}

// want returns the settings that the flags select. A flag that is not set does not change an existing cluster. It
// fails for an invalid CIDR, an unknown cluster or an unknown mode of kube-proxy.
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
	if given("network-policies") {
		w.NetworkPolicies = &f.networkPolicies
	}
	if given("kube-proxy-mode") {
		if err := state.CheckKubeProxyMode(f.kubeProxyMode); err != nil {
			return w, fmt.Errorf("--kube-proxy-mode: %w", err)
		}
		w.KubeProxyMode = f.kubeProxyMode
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
				return w, fmt.Errorf("--%s %q: must be CLUSTER=CIDR with one of the clusters %v", r.one, pair, names)
			}
			if r.into[cluster], err = netip.ParsePrefix(value); err != nil {
				return w, fmt.Errorf("--%s: %w", r.one, err)
			}
		}
	}
	return w, nil
}
