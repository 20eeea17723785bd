// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"liqo.io/federation/hack/playground/sandbox"
	"liqo.io/federation/hack/playground/state"
)

// hostLinkPeer is the name, in the network namespace of the router, of its link to the root network namespace.
const hostLinkPeer = "host"

// SetUpRouter ensures that the router has its bridges, its link to the root network namespace, its routes and its
// packet filter.
func SetUpRouter(ctx context.Context, i *state.Instance) error {
	err := sandbox.Enter(i.Router, false, func() error {
		if err := bringUp("lo", netip.Prefix{}); err != nil {
			return err
		}
		if err := sysctl("net/ipv4/ip_forward", "1"); err != nil {
			return err
		}
		// Frames within a cluster are switched without being filtered.
		if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
			if err := sysctl("net/bridge/bridge-nf-call-iptables", "0"); err != nil {
				return err
			}
		}
		for index, c := range i.Clusters {
			if err := bridge(bridgeName(index), gateway(c)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	if err := hostLink(i); err != nil {
		return fmt.Errorf("connecting host and router: %w", err)
	}
	return Filter(ctx, i)
}

// RemoveHostLink deletes the link of an instance from the root network namespace.
func RemoveHostLink(i *state.Instance) error { return deleteLink(i.HostLink.Name) }

func bridgeName(cluster int) string { return fmt.Sprintf("br%d", cluster) }

// gateway returns the first address of a cluster's node CIDR, which the router has on the cluster's bridge.
func gateway(c *state.Cluster) netip.Prefix {
	return netip.PrefixFrom(c.NodeCIDR.Addr().Next(), c.NodeCIDR.Bits())
}

func bridge(name string, address netip.Prefix) error {
	found, err := exists(name)
	if err != nil {
		return err
	}
	if !found {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = name
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
			return fmt.Errorf("adding bridge %s: %w", name, err)
		}
	}
	return bringUp(name, address)
}

func hostLink(i *state.Instance) error {
	var found bool
	err := sandbox.Enter(i.Router, false, func() error {
		var err error
		found, err = exists(hostLinkPeer)
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		// The kernel deletes the link of a router some time after the router has ended.
		if err := deleteLink(i.HostLink.Name); err != nil {
			return err
		}
		if err := veth(i.HostLink.Name, hostLinkPeer, i.Router.PID); err != nil {
			return err
		}
	}
	if err := bringUp(i.HostLink.Name, i.HostLink.Host); err != nil {
		return err
	}
	if err := sandbox.Enter(i.Router, false, func() error {
		return bringUp(hostLinkPeer, i.HostLink.Router)
	}); err != nil {
		return err
	}
	for _, c := range i.Clusters {
		if err := route(c.NodeCIDR, i.HostLink.Router.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// veth creates a pair of links: name in the current network namespace, and peer in the network namespace of a
// process.
func veth(name, peer string, pid int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: peer, PeerNamespace: netlink.NsPid(pid)})
	if err != nil {
		return fmt.Errorf("adding link %s: %w", name, err)
	}
	return nil
}
