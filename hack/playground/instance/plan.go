// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// Want are the settings of Up. If a pointer is nil, existing clusters keep their setting.
type Want struct {
	Instance  string
	Dir       string
	Clusters  []string
	Workers   *int
	FakeNodes *int
	Audit     *bool
	Durable   *bool
	// NetworkPolicies enables the policy engine on the nodes, which enforces NetworkPolicies.
	NetworkPolicies *bool
	// KubeProxyMode is the mode of kube-proxy on the nodes of the clusters: state.KubeProxyIPTables, which is the default
	// of a new cluster, or state.KubeProxyNFTables. If it is empty, existing clusters keep their mode.
	KubeProxyMode string
	// PodCIDRs and ServiceCIDRs are CIDRs by name of the cluster. The name "" stands for all clusters without a
	// CIDR of their own.
	PodCIDRs     map[string]netip.Prefix
	ServiceCIDRs map[string]netip.Prefix
	// Pool is the CIDR from which each cluster gets a /24 for its nodes.
	Pool netip.Prefix
}

// Enforces reports whether Up makes the clusters enforce NetworkPolicies.
func (w Want) Enforces() bool { return w.NetworkPolicies != nil && *w.NetworkPolicies }

// Defaults of a new cluster.
var (
	DefaultPodCIDR     = netip.MustParsePrefix("10.244.0.0/16")
	DefaultServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	DefaultPool        = netip.MustParsePrefix("172.30.0.0/16")
)

// maxNodes is the largest number of nodes in a cluster. Each node has a /24 of the pod CIDR, and an address in
// the node CIDR, which is a /24.
const maxNodes = 100

// newInstance returns an instance without clusters. The link between this machine and the router gets the first subnet
// of the pool that overlaps no range in used. It fails if there is none.
func newInstance(w Want, used []netip.Prefix) (*state.Instance, error) {
	subnet, err := state.FreeSubnet(w.Pool, used)
	if err != nil {
		return nil, err
	}
	host, err := state.Address(subnet, 1)
	if err != nil {
		return nil, err
	}
	return &state.Instance{
		Name: w.Instance,
		Dir:  w.Dir,
		HostLink: state.HostLink{
			// The kernel permits at most 15 characters.
			Name:   fmt.Sprintf("pg-%x", sha256.Sum256([]byte(w.Instance)))[:11],
			Host:   netip.PrefixFrom(host, 30),
			Router: netip.PrefixFrom(host.Next(), 30),
		},
	}, nil
}

// plan adds the clusters and nodes of w to the record. The subnets of new clusters overlap no range in used. It fails
// if w changes a setting that is fixed for an existing cluster, or is invalid.
func plan(i *state.Instance, w Want, used []netip.Prefix) error {
	if err := owned(i, w.Dir); err != nil {
		return err
	}
	for _, name := range w.Clusters {
		if err := state.CheckName("cluster", name); err != nil {
			return err
		}
		pods, podsAsked := asked(w.PodCIDRs, name, DefaultPodCIDR)
		services, servicesAsked := asked(w.ServiceCIDRs, name, DefaultServiceCIDR)
		c, err := i.Cluster(name)
		switch {
		case err != nil:
			if err := state.CheckCIDRs(name, pods, services, w.Pool); err != nil {
				return err
			}
			taken := append([]netip.Prefix{i.HostLink.Host.Masked(), pods, services}, used...)
			for _, other := range i.Clusters {
				taken = append(taken, other.NodeCIDR)
			}
			subnet, err := state.FreeSubnet(w.Pool, taken)
			if err != nil {
				return err
			}
			c = &state.Cluster{Name: name, NodeCIDR: subnet, PodCIDR: pods, ServiceCIDR: services}
			i.Clusters = append(i.Clusters, c)
			c.Audit = w.Audit != nil && *w.Audit
			c.Durable = w.Durable != nil && *w.Durable
			c.KubeProxyMode = w.KubeProxyMode
		case podsAsked && pods != c.PodCIDR || servicesAsked && services != c.ServiceCIDR:
			return fixed(i, "cluster %s runs with pods in %s and Services in %s", name, c.PodCIDR, c.ServiceCIDR)
		case w.Audit != nil && *w.Audit != c.Audit || w.Durable != nil && *w.Durable != c.Durable:
			return fixed(i, "cluster %s runs with --audit=%t and --durable=%t", name, c.Audit, c.Durable)
		case w.KubeProxyMode != "" && w.KubeProxyMode != cmp.Or(c.KubeProxyMode, state.KubeProxyIPTables):
			return fixed(i, "cluster %s runs with --kube-proxy-mode=%s", name,
				cmp.Or(c.KubeProxyMode, state.KubeProxyIPTables))
		}
		if w.NetworkPolicies != nil {
			c.NetworkPolicies = *w.NetworkPolicies
		}
		if err := resize(c, w); err != nil {
			return err
		}
	}
	return nil
}

// fixed returns the error for a changed setting that is fixed for an existing cluster. The format and args describe the
// setting that the cluster has.
func fixed(i *state.Instance, format string, args ...any) error {
	return fmt.Errorf("%s, which cannot change; delete the instance first with: playground down --instance %s",
		fmt.Sprintf(format, args...), i.Name)
}

func resize(c *state.Cluster, w Want) error {
	fresh := len(c.Nodes) == 0
	nodes := len(c.Nodes)
	if fresh {
		nodes = 2
	}
	if w.Workers != nil {
		nodes = *w.Workers + 1
	}
	limit := min(maxNodes, 3<<(24-c.PodCIDR.Bits())/4)
	if nodes < 1 || nodes > limit {
		return fmt.Errorf("cluster %s: must have 0 to %d workers, not %d", c.Name, limit-1, nodes-1)
	}
	if w.FakeNodes != nil {
		if *w.FakeNodes < 0 || *w.FakeNodes > 5000 {
			return fmt.Errorf("cluster %s: must have 0 to 5000 fake nodes, not %d", c.Name, *w.FakeNodes)
		}
		if *w.FakeNodes < c.FakeNodes {
			return fmt.Errorf("cluster %s has %d fake nodes; a cluster can only grow", c.Name, c.FakeNodes)
		}
		c.FakeNodes = *w.FakeNodes
	}
	if nodes < len(c.Nodes) {
		return fmt.Errorf("cluster %s has %d workers; a cluster can only grow", c.Name, len(c.Nodes)-1)
	}
	for index := len(c.Nodes); index < nodes; index++ {
		name := c.Name + "-control-plane"
		if index > 0 {
			name = fmt.Sprintf("%s-worker-%d", c.Name, index)
		}
		// The first address belongs to the router.
		address, err := state.Address(c.NodeCIDR, index+2)
		if err != nil {
			return err
		}
		pods, err := state.Subnet(c.PodCIDR, 24, index)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, &state.Node{Name: name, Index: index, Address: address, PodCIDR: pods})
	}
	return nil
}

func asked(cidrs map[string]netip.Prefix, cluster string, fallback netip.Prefix) (netip.Prefix, bool) {
	if p, ok := cidrs[cluster]; ok {
		return p, true
	}
	if p, ok := cidrs[""]; ok {
		return p, true
	}
	return fallback, false
}

// ClusterNames returns the clusters that Up starts by default: all clusters of the instance, or rome and milan if
// it is new.
func ClusterNames(name string) []string {
	i, err := state.Load(name)
	if err != nil || len(i.Clusters) == 0 {
		return []string{"rome", "milan"}
	}
	var names []string
	for _, c := range i.Clusters {
		names = append(names, c.Name)
	}
	return names
}

// HasFakeNodes reports whether any cluster of the instance with the given name has fake nodes, which kwok simulates.
func HasFakeNodes(name string) bool {
	i, err := state.Load(name)
	return err == nil && slices.ContainsFunc(i.Clusters, func(c *state.Cluster) bool { return c.FakeNodes > 0 })
}

// HasNetworkPolicies reports whether any cluster of the instance with the given name enforces NetworkPolicies.
func HasNetworkPolicies(name string) bool {
	i, err := state.Load(name)
	return err == nil && slices.ContainsFunc(i.Clusters, func(c *state.Cluster) bool { return c.NetworkPolicies })
}

// marker is a file that exists until the state directory is deleted. Running daemons may create other files in
// the directory again, but not this one.
func marker(i *state.Instance) string { return i.Path("instance") }

// mark creates the marker in the state directory of a new instance.
func mark(i *state.Instance) error {
	if err := os.MkdirAll(i.Path(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(marker(i), []byte(i.Name+"\n"), 0o644)
}

// abandoned reports whether an instance can only be deleted: either its state directory was deleted, or the state
// directory is not dir and no process of the instance runs.
func abandoned(i *state.Instance, dir string) (bool, error) {
	_, err := os.Stat(marker(i))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && i.Dir != dir && !running(i), err
}

func running(i *state.Instance) bool {
	if sandbox.Alive(i.Router) {
		return true
	}
	for _, c := range i.Clusters {
		for _, n := range c.Nodes {
			if sandbox.Alive(n.Holder) {
				return true
			}
		}
	}
	return false
}
