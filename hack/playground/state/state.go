// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state stores the record of an instance: its clusters, nodes and processes. A resource is recorded
// before it is created, so that it can be deleted after a crash. Records are below /run, as a reboot ends
// everything that they name.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sort"
)

// Root is the directory with the records of all instances on this machine.
const Root = "/run/liqo-playground"

// Instance is a set of clusters and the router between them.
type Instance struct {
	Name string `json:"name"`
	// Dir is the absolute path of the state directory (`--state`).
	Dir      string     `json:"dir"`
	HostLink HostLink   `json:"hostLink"`
	Router   Process    `json:"router"`
	Clusters []*Cluster `json:"clusters,omitempty"`
	// Cuts are the pairs of clusters whose traffic the router drops.
	Cuts []Cut `json:"cuts,omitempty"`
}

// HostLink is the link between the root network namespace and the router.
type HostLink struct {
	Name   string       `json:"name"`
	Host   netip.Prefix `json:"host"`
	Router netip.Prefix `json:"router"`
}

// Process identifies a process, even after its PID is reused.
type Process struct {
	PID int `json:"pid,omitempty"`
	// Start is the start time of the process, in clock ticks since the boot.
	Start uint64 `json:"start,omitempty"`
}

// Cut is a pair of clusters, in alphabetical order.
type Cut struct {
	A string `json:"a"`
	B string `json:"b"`
}

// NewCut returns the cut between two clusters, in whichever order they are given.
func NewCut(a, b string) Cut {
	if b < a {
		a, b = b, a
	}
	return Cut{A: a, B: b}
}

// Cluster is one Kubernetes cluster. Its first node is the control plane.
type Cluster struct {
	Name        string       `json:"name"`
	NodeCIDR    netip.Prefix `json:"nodeCIDR"`
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	FakeNodes   int          `json:"fakeNodes,omitempty"`
	Audit       bool         `json:"audit,omitempty"`
	Durable     bool         `json:"durable,omitempty"`
	Nodes       []*Node      `json:"nodes,omitempty"`
	// NetworkPolicies is true if the policy engine runs on the nodes.
	NetworkPolicies bool `json:"networkPolicies,omitempty"`
	// KubeProxyMode is the mode of kube-proxy on the nodes. Empty means KubeProxyIPTables.
	KubeProxyMode string `json:"kubeProxyMode,omitempty"`
}

// Modes of kube-proxy, by the names in its configuration.
const (
	KubeProxyIPTables = "iptables"
	KubeProxyNFTables = "nftables"
)

// CheckKubeProxyMode returns an error unless mode is one of the modes of kube-proxy that nodes can run.
func CheckKubeProxyMode(mode string) error {
	if mode != KubeProxyIPTables && mode != KubeProxyNFTables {
		return fmt.Errorf("%q: must be %s or %s", mode, KubeProxyIPTables, KubeProxyNFTables)
	}
	return nil
}

// Node is a node that runs a kubelet, unlike fake nodes: a set of Linux namespaces that one process keeps.
type Node struct {
	Name    string       `json:"name"`
	Index   int          `json:"index"`
	Address netip.Addr   `json:"address"`
	PodCIDR netip.Prefix `json:"podCIDR"`
	Holder  Process      `json:"holder"`
}

var nameRE = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// CheckName returns an error if a name is not valid in host names, paths and labels. The error names the kind, for
// example cluster.
func CheckName(kind, name string) error {
	if !nameRE.MatchString(name) || name == "bin" {
		return fmt.Errorf("%s name %q: must have 1 to 20 lower-case letters, digits and dashes, "+
			"begin with a letter, not end with a dash, and not be \"bin\"", kind, name)
	}
	return nil
}

// RunDir returns the directory with the record of an instance.
func RunDir(instance string) string { return filepath.Join(Root, instance) }

// Path returns a path in the directory with the keys, logs and volumes of an instance.
func (i *Instance) Path(elem ...string) string {
	return filepath.Join(append([]string{i.Dir, i.Name}, elem...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig for a cluster.
func (i *Instance) Kubeconfig(cluster string) string {
	return Kubeconfig(i.Dir, i.Name, cluster)
}

// Kubeconfig returns the path of a cluster's kubeconfig in a state directory.
func Kubeconfig(dir, instance, cluster string) string {
	if instance == "demo" {
		return filepath.Join(dir, cluster+".kubeconfig")
	}
	return filepath.Join(dir, instance, cluster+".kubeconfig")
}

// Cluster returns a cluster by name. If it does not exist, the error contains the names of all clusters.
func (i *Instance) Cluster(name string) (*Cluster, error) {
	var names []string
	for _, c := range i.Clusters {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("instance %s has no cluster %q; its clusters are %v", i.Name, name, names)
}

// Node returns a node by name, and its cluster. If it does not exist, the error contains the names of all nodes.
func (i *Instance) Node(name string) (*Cluster, *Node, error) {
	var names []string
	for _, c := range i.Clusters {
		for _, n := range c.Nodes {
			if n.Name == name {
				return c, n, nil
			}
			names = append(names, n.Name)
		}
	}
	return nil, nil, fmt.Errorf("instance %s has no node %q; its nodes are %v", i.Name, name, names)
}

// ControlPlane returns the node that runs the control plane.
func (c *Cluster) ControlPlane() *Node { return c.Nodes[0] }

// Save writes the record atomically.
func (i *Instance) Save() error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	dir := RunDir(i.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(dir, ".state.json")
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, "state.json"))
}

// Load reads the record of an instance. It fails with fs.ErrNotExist if there is none.
func Load(instance string) (*Instance, error) {
	path := filepath.Join(RunDir(instance), "state.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	i := &Instance{}
	if err := json.Unmarshal(data, i); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", path, err)
	}
	return i, nil
}

// Instances returns the sorted names of all instances with a record.
func Instances() ([]string, error) {
	entries, err := os.ReadDir(Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// Forget deletes the record. Call it after everything in the record was deleted.
func (i *Instance) Forget() error { return os.RemoveAll(RunDir(i.Name)) }
