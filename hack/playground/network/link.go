// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network connects the nodes of an instance. The router is a network namespace with a bridge for each
// cluster, to which the nodes of the cluster are connected, and a link to the root network namespace. The router
// has routes to nodes, but no routes to pods.
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Used returns the IPv4 ranges of all routes and addresses in the root network namespace.
func Used() ([]netip.Prefix, error) {
	var used []netip.Prefix
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if p, ok := prefix(r.Dst); ok && p.Bits() > 0 {
			used = append(used, p.Masked())
		}
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		if p, ok := prefix(a.IPNet); ok {
			used = append(used, p.Masked())
		}
	}
	return used, nil
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// exists reports whether the current network namespace has a link.
func exists(name string) (bool, error) {
	_, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	return err == nil, err
}

// bringUp ensures that a link is up and, if address is valid, that the link has it.
func bringUp(name string, address netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("reading link %s: %w", name, err)
	}
	if address.IsValid() {
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("adding address %s to link %s: %w", address, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting link %s up: %w", name, err)
	}
	return nil
}

// route ensures that there is a route to destination through a neighbour. An invalid destination means the
// default route.
func route(destination netip.Prefix, via netip.Addr) error {
	r := &netlink.Route{Gw: via.AsSlice()}
	if destination.IsValid() {
		r.Dst = ipNet(destination)
	} else {
		r.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	}
	if err := netlink.RouteReplace(r); err != nil {
		return fmt.Errorf("adding a route to %s via %s: %w", r.Dst, via, err)
	}
	return nil
}

// sysctl sets a kernel parameter of the current network namespace.
func sysctl(path, value string) error {
	if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0); err != nil {
		return fmt.Errorf("setting %s: %w", path, err)
	}
	return nil
}

// deleteLink deletes a link in the current network namespace. It succeeds if the link does not exist.
func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("deleting link %s: %w", name, err)
	}
	return nil
}
