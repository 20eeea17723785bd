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

// SetUpNode connects a node with its cluster's bridge and gives it its address
// and its routes to the pods of the cluster's other nodes, wherever they are missing.
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
		// Service addresses must be translated also between two pods of one node.
		return sysctl("net/bridge/bridge-nf-call-iptables", "1")
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return masquerade(ctx, n, c.PodCIDR)
}

// CheckKernel refuses a kernel without the bridge filter that Services need, if
// it cannot be loaded.
func CheckKernel() error {
	const filter = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(filter); err == nil {
		return nil
	}
	out, err := exec.Command("modprobe", "br_netfilter").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the kernel's br_netfilter is not there and cannot be loaded: %w: %s", err, strings.TrimSpace(string(out)))
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
			// What is left of an earlier node dies with its namespace, but not at once.
			if err := deleteLink(port); err != nil {
				return err
			}
			if err := veth(port, nodeLink, n.Holder.PID); err != nil {
				return err
			}
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return fmt.Errorf("link %s: %w", port, err)
		}
		master, err := netlink.LinkByName(bridgeName(cluster))
		if err != nil {
			return fmt.Errorf("bridge %s: %w", bridgeName(cluster), err)
		}
		if err := netlink.LinkSetMaster(link, master); err != nil {
			return fmt.Errorf("put %s on %s: %w", port, bridgeName(cluster), err)
		}
		return bringUp(port, netip.Prefix{})
	})
}
