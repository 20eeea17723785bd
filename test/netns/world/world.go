// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world creates clusters of network namespaces. All nodes are in one Ethernet network, and are configured as by
// a simple CNI plugin. The caller adds the links, routes and rules of the network agents, either directly from the
// model or by running the agents.
package world

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"liqo.io/federation/apiserver/netmap"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

// Namespaces is the directory of the files of network namespaces. It is mounted only in the mount namespace
// of this process, so the kernel deletes everything in it when the process ends.
const Namespaces = "/mnt"

// Prepare mounts Namespaces. It fails unless the process has network and mount namespaces of its own, for
// example by unshare.
func Prepare() error {
	for _, kind := range []string{"net", "mnt"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		callers, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", os.Getppid(), kind))
		if err != nil {
			return err
		}
		if own == callers {
			return fmt.Errorf("the process shares the %s namespace of its parent: run it with unshare --net --mount", kind)
		}
	}
	if err := unix.Mount("tmpfs", Namespaces, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting the file system of namespaces at %s: %w", Namespaces, err)
	}
	return os.Setenv("XTABLES_LOCKFILE", Namespaces+"/xtables.lock")
}

// World is a set of clusters whose nodes are all in one Ethernet network, a bridge in the network namespace Wire. Each
// cluster has two nodes, and each node has one pod.
type World struct {
	Wire        *kernel.Namespace
	Rome, Milan *Cluster
	// Others has the clusters that Add has created.
	Others []*Cluster

	options Options
	current *kernel.Namespace
	dir     string
	close   []func() error
}

// Options are the options of a World.
type Options struct {
	// Iptables is "nft" or "legacy".
	Iptables string
	// Disjoint selects different CIDRs for the pods of the two clusters. Otherwise both have 10.0.0.0/16 and
	// fd10::/32, and are remapped: milan's CIDR is 10.1.0.0/16 on rome, rome's is 10.2.0.0/16 on milan, and the
	// IPv6 CIDR of each is fd11::/32 on the other.
	Disjoint bool
}

// Cluster is a cluster of a World.
type Cluster struct {
	Name  string
	Nodes []*Node
	// Input is the input of the model for this cluster. Its field Node is not set.
	Input model.Input
}

// Node is a node with its pod.
type Node struct {
	Name    string
	NS, Pod *kernel.Namespace
	V4, V6  netip.Addr
	// Inner is the network namespace of the gateway. It is nil on a node without a gateway.
	Inner *kernel.Namespace
}

// New creates a world with the clusters rome and milan, and without links, routes and rules of the network agents. The
// pod on node N of rome has the addresses 10.0.N.2 and fd10:0:N::2. Milan's pods have the same addresses, or with
// Disjoint 10.1.N.2 and fd11:0:N::2.
func New(o Options) (*World, error) {
	here, err := kernel.Current()
	if err != nil {
		return nil, err
	}
	w := &World{options: o, current: here, close: []func() error{here.Close}}
	if w.dir, err = os.MkdirTemp(Namespaces, "world-"); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.close = append(w.close, func() error { return os.RemoveAll(w.dir) })
	if err := w.fill(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Path returns the path of a file in the directory of this world.
func (w *World) Path(name string) string { return filepath.Join(w.dir, name) }

// Close deletes the world with all its network namespaces.
func (w *World) Close() error {
	var errs []error
	for _, f := range slices.Backward(w.close) {
		errs = append(errs, f())
	}
	w.close = nil
	return errors.Join(errs...)
}

func (w *World) fill() (err error) {
	if w.Wire, err = w.Enter(w.current, "wire"); err != nil {
		return err
	}
	if err := IP(w.Wire, "link add br0 type bridge", "link set br0 up"); err != nil {
		return err
	}
	keyOfRome, publicOfRome, err := Keys()
	if err != nil {
		return err
	}
	keyOfMilan, publicOfMilan, err := Keys()
	if err != nil {
		return err
	}
	// rome and milan are the CIDRs of the pods of the two clusters. romeSeen and milanSeen are the CIDRs by which the
	// other cluster reaches these pods.
	rome, milan := both, both
	romeSeen, milanSeen := cidrs{"10.2", "fd11"}, cidrs{"10.1", "fd11"}
	if w.options.Disjoint {
		milan, romeSeen = milanSeen, rome
	}
	if w.Rome, err = w.cluster("rome", 1, rome, keyOfRome); err != nil {
		return err
	}
	if w.Milan, err = w.cluster("milan", 2, milan, keyOfMilan); err != nil {
		return err
	}
	w.Rome.Input.Peers = []model.Peer{{
		ClusterID: "milan", PublicKey: publicOfMilan, Endpoint: netip.AddrPortFrom(w.Milan.Nodes[0].V4, Port), MTU: TunnelMTU,
		Local:    remaps(rome, romeSeen),
		Remote:   milanSeen.prefixes(),
		Mappings: []model.Mapping{{Seen: Addr("10.80.0.1"), Target: w.Rome.Nodes[1].V4}},
	}}
	w.Milan.Input.Peers = []model.Peer{{
		ClusterID: "rome", PublicKey: publicOfRome, Endpoint: netip.AddrPortFrom(w.Rome.Nodes[0].V4, Port), MTU: TunnelMTU,
		Local: remaps(milan, milanSeen),
		// 10.80.0.0/24 is the range of rome's AddressMappings. The Input of rome does not contain 10.66.0.0/24.
		Remote: append(romeSeen.prefixes(), Prefix("10.80.0.0/24"), Prefix("10.66.0.0/24")),
	}}
	return nil
}

const (
	// Port is the UDP port of all gateways.
	Port = 51820
	// TunnelMTU is the MTU of all tunnels, in bytes.
	TunnelMTU = 1400
)

// cidrs has the prefixes of the addresses of a cluster's pods, by address family.
type cidrs struct{ v4, v6 string }

// both has the prefixes of two clusters with the same CIDRs.
var both = cidrs{"10.0", "fd10"}

func (c cidrs) prefixes() []netip.Prefix {
	return []netip.Prefix{Prefix(c.v4 + ".0.0/16"), Prefix(c.v6 + "::/32")}
}

func remaps(own, seen cidrs) []netmap.CIDRMapping {
	var all []netmap.CIDRMapping
	for i, p := range own.prefixes() {
		all = append(all, netmap.CIDRMapping{CIDR: p, Mapped: seen.prefixes()[i]})
	}
	return all
}

func (w *World) cluster(name string, number int, pods cidrs, key model.PrivateKey) (*Cluster, error) {
	c := &Cluster{Name: name, Input: model.Input{
		Gateways: []string{name + "-1"}, Active: name + "-1",
		PodCIDRs: pods.prefixes(),
		MTU:      1500, PrivateKey: key, Port: Port,
	}}
	for i := 1; i <= 2; i++ {
		n, err := w.node(fmt.Sprintf("%s-%d", name, i), number, i, pods)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, n)
		c.Input.Nodes = append(c.Input.Nodes, model.Node{
			Name: n.Name, Addresses: []netip.Addr{n.V4, n.V6},
			PodCIDRs: []netip.Prefix{
				Prefix(fmt.Sprintf("%s.%d.0/24", pods.v4, i)),
				Prefix(fmt.Sprintf("%s:0:%d::/64", pods.v6, i)),
			},
		})
	}
	return c, w.AddGateway(c.Nodes[0])
}

// AddGateway creates the network namespace of a gateway. It uses the same iptables backend as the node.
func (w *World) AddGateway(n *Node) (err error) {
	if n.Inner, err = w.Enter(n.NS, n.Name+"-gateway"); err != nil {
		return err
	}
	backend, err := n.NS.Backend()
	if err != nil {
		return err
	}
	if backend != w.options.Iptables {
		return fmt.Errorf("%s has rules of iptables-%s only, but %q was detected", n.Name, w.options.Iptables, backend)
	}
	return n.Inner.UseBackend(backend)
}

// Enter creates a network namespace in outer. Close deletes the new namespace.
func (w *World) Enter(outer *kernel.Namespace, name string) (*kernel.Namespace, error) {
	path := w.Path(name)
	ns, err := outer.Enter(path)
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, func() error { return errors.Join(ns.Close(), kernel.RemoveNamespace(path)) })
	return ns, nil
}

// Add adds a cluster with the same CIDRs as rome and without peers, and returns the public key of its
// gateway.
func (w *World) Add(name string) (*Cluster, model.PublicKey, error) {
	private, public, err := Keys()
	if err != nil {
		return nil, public, err
	}
	c, err := w.cluster(name, len(w.Clusters())+1, both, private)
	if err != nil {
		return nil, public, err
	}
	w.Others = append(w.Others, c)
	return c, public, nil
}

// Clusters returns rome, milan and all other clusters.
func (w *World) Clusters() []*Cluster { return append([]*Cluster{w.Rome, w.Milan}, w.Others...) }

// Nodes returns the nodes of all clusters.
func (w *World) Nodes() []*Node {
	var all []*Node
	for _, c := range w.Clusters() {
		all = append(all, c.Nodes...)
	}
	return all
}

// Addr parses an address.
func Addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// Prefix parses a CIDR.
func Prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
