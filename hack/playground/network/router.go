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

// hostLinkPeer is the end of the link to the root network namespace in the router.
const hostLinkPeer = "host"

// SetUpRouter ensures the bridges, the link to the host, the routes and the rules of the router.
func SetUpRouter(ctx context.Context, i *state.Instance) error {
	err := sandbox.Enter(i.Router, false, func() error {
		if err := bringUp("lo", netip.Prefix{}); err != nil {
			return err
		}
		if err := sysctl("net/ipv4/ip_forward", "1"); err != nil {
			return err
		}
		// Frames within a cluster are switched, not filtered.
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

// gateway returns the address of the router on the bridge of a cluster, which is the first.
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
		// The link of an ended router is deleted some time after its namespace.
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

// veth creates a pair of links: name in the current namespace, peer in that of a process.
func veth(name, peer string, pid int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: peer, PeerNamespace: netlink.NsPid(pid)})
	if err != nil {
		return fmt.Errorf("adding link %s: %w", name, err)
	}
	return nil
}
