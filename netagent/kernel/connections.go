// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// ForgetConnections forgets the connections that were translated so.
func (n *Namespace) ForgetConnections(f model.Family, translations []Translation) error {
	family := netlink.InetFamily(unix.AF_INET)
	if f == model.IPv6 {
		family = unix.AF_INET6
	}
	if err := retry(func() error {
		_, err := n.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, anyOf(translations))
		return err
	}); err != nil {
		return fmt.Errorf("forgetting connections whose addresses are translated otherwise now: %w", err)
	}
	return nil
}

// anyOf matches the connections that one of some translations was made to.
type anyOf []Translation

// MatchConntrackFlow tells whether a connection is one of them. Its answers are
// sent to what the addresses have become, by who was called in the end: of a
// Service, one of its endpoints. What we are called by the peers is left out of
// who it is with, since they may call us as we call others.
func (all anyOf) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	within := func(ranges []netip.Prefix, some ...net.IP) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool {
			return slices.ContainsFunc(some, func(ip net.IP) bool { return p.Contains(addrOf(ip)) })
		})
	}
	return slices.ContainsFunc(all, func(t Translation) bool {
		return within([]netip.Prefix{t.To}, flow.Reverse.SrcIP, flow.Reverse.DstIP) &&
			within(t.With, flow.Forward.SrcIP, flow.Forward.DstIP, flow.Reverse.SrcIP)
	})
}
