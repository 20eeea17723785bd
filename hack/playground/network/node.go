// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

const nodeLink = "eth0"

// SetUpNode ensures that a node is connected to the bridge of its cluster, and has its address and routes to the
// pods on all other nodes of the cluster.
func SetUpNode(ctx context.Context, i *state.Instance, cluster int, n *state.Node) error {
	c := i.Clusters[cluster]
	if err := plug(i, cluster, n); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	err := sandbox.Enter(n.Holder, false, func() error {
		if err := bringUp("lo", netip.Prefix{}); err != nil {
			return err
		}
		if err := bringUp(nodeLink, netip.PrefixFrom(n.Address, c.NodeCIDR.Bits())); err != nil {
			return err
		}
		if err := route(netip.Prefix{}, gateway(c).Addr()); err != nil {
			return err
		}
		for _, other := range c.Nodes {
			if other.Name == n.Name {
				continue
			}
			if err := route(other.PodCIDR, other.Address); err != nil {
				return err
			}
		}
		if err := sysctl("net/ipv4/ip_forward", "1"); err != nil {
			return err
		}
		// With this parameter, iptables also translates the Service addresses of packets between pods on one node.
		return sysctl("net/bridge/bridge-nf-call-iptables", "1")
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return masquerade(ctx, n, c.PodCIDR)
}

// CheckKernel ensures that the kernel module br_netfilter, which Services require, is loaded. It fails if the
// kernel does not have the module.
func CheckKernel() error {
	const filter = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(filter); err == nil {
		return nil
	}
	out, err := exec.Command("modprobe", "br_netfilter").CombinedOutput()
	if err != nil {
		return fmt.Errorf("loading the kernel module br_netfilter: %w: %s", err, strings.TrimSpace(string(out)))
	}
	_, err = os.Stat(filter)
	return err
}

func plug(i *state.Instance, cluster int, n *state.Node) error {
	var found bool
	err := sandbox.Enter(n.Holder, false, func() error {
		var err error
		found, err = exists(nodeLink)
		return err
	})
	if err != nil {
		return err
	}
	port := fmt.Sprintf("c%dn%d", cluster, n.Index)
	return sandbox.Enter(i.Router, false, func() error {
		if !found {
			// The kernel deletes the link of a node some time after the node has ended.
			if err := deleteLink(port); err != nil {
				return err
			}
			if err := veth(port, nodeLink, n.Holder.PID); err != nil {
				return err
			}
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return fmt.Errorf("reading link %s: %w", port, err)
		}
		master, err := netlink.LinkByName(bridgeName(cluster))
		if err != nil {
			return fmt.Errorf("reading bridge %s: %w", bridgeName(cluster), err)
		}
		if err := netlink.LinkSetMaster(link, master); err != nil {
			return fmt.Errorf("adding link %s to bridge %s: %w", port, bridgeName(cluster), err)
		}
		return bringUp(port, netip.Prefix{})
	})
}
