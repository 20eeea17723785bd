// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network connects the nodes of an instance. The router is a network
// namespace with one bridge for each cluster; every node hangs on its cluster's
// bridge, and the root network namespace on a link of its own. The router knows
// node addresses and nothing about pods.
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

// Used returns the IPv4 ranges that routes and addresses of this machine's root
// network namespace take.
func Used() ([]netip.Prefix, error) {
	var used []netip.Prefix
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if p, ok := prefix(r.Dst); ok && p.Bits() > 0 {
			used = append(used, p.Masked())
		}
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
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

// exists tells whether the current namespace has a link of that name.
func exists(name string) (bool, error) {
	_, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil
	}
	return err == nil, err
}

// bringUp gives the link its address and sets it up. Both may be so already.
func bringUp(name string, address netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if address.IsValid() {
		if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("address %s on link %s: %w", address, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up link %s: %w", name, err)
	}
	return nil
}

// route leads to destination by way of a neighbour. An invalid destination is
// the default route.
func route(destination netip.Prefix, via netip.Addr) error {
	r := &netlink.Route{Gw: via.AsSlice()}
	if destination.IsValid() {
		r.Dst = ipNet(destination)
	} else {
		r.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	}
	if err := netlink.RouteReplace(r); err != nil {
		return fmt.Errorf("route to %s via %s: %w", r.Dst, via, err)
	}
	return nil
}

// sysctl sets a kernel parameter of the current network namespace.
func sysctl(path, value string) error {
	if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0); err != nil {
		return fmt.Errorf("sysctl %s: %w", path, err)
	}
	return nil
}

// deleteLink removes a link of the current namespace if it is there.
func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}
