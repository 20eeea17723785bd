// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
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
// sent to what the addresses have become.
func (all anyOf) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	within := func(ranges []netip.Prefix, one, other []byte) bool {
		return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addrOf(one)) || p.Contains(addrOf(other)) })
	}
	return slices.ContainsFunc(all, func(t Translation) bool {
		return within([]netip.Prefix{t.To}, flow.Reverse.SrcIP, flow.Reverse.DstIP) &&
			(len(t.With) == 0 || within(t.With, flow.Forward.SrcIP, flow.Forward.DstIP))
	})
}
