// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// Links returns the links that the agents own.
func (n *Namespace) Links() ([]Link, error) {
	var all []netlink.Link
	if err := retry(func() (err error) { all, err = n.handle.LinkList(); return err }); err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	var links []Link
	for _, l := range all {
		if strings.HasPrefix(l.Attrs().Name, model.LinkPrefix) {
			links = append(links, n.linkOf(l))
		}
	}
	return links, nil
}

func (n *Namespace) linkOf(l netlink.Link) Link {
	attrs := l.Attrs()
	link := Link{
		Link: model.Link{Name: attrs.Name, Kind: model.Kind(l.Type()), MTU: attrs.MTU},
		Up:   attrs.Flags&net.FlagUp != 0,
	}
	copy(link.MAC[:], attrs.HardwareAddr)
	switch typed := l.(type) {
	case *netlink.Vxlan:
		link.VNI, link.Port, link.Local = typed.VxlanId, typed.Port, addrOf(typed.SrcAddr)
	case *netlink.Veth:
		if attrs.Name == model.GatewayLink {
			link.Kind = model.VethEnd
		} else if n.inner != nil {
			if _, err := n.inner.handle.LinkByName(model.GatewayLink); err != nil {
				link.Kind = "veth without its other end"
			}
		}
	case *netlink.Tuntap:
		if d := n.deviceOf(attrs.Name); d != nil {
			link.Kind = model.WireGuard
			link.Up = link.Up && d.sockets.open.Load()
		}
	}
	return link
}

// AddLink creates a link. It fails for a VethEnd, which AddLink creates together with its Veth.
func (n *Namespace) AddLink(l model.Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = l.Name, l.MTU
	attrs.HardwareAddr = net.HardwareAddr(l.MAC[:])
	var link netlink.Link
	switch l.Kind {
	case model.Veth:
		if n.inner == nil {
			return fmt.Errorf("creating link %s: the network namespace of its peer link is not open", l.Name)
		}
		veth := netlink.NewVeth(attrs)
		veth.PeerName, veth.PeerHardwareAddr = l.Peer, net.HardwareAddr(l.PeerMAC[:])
		veth.PeerMTU, veth.PeerNamespace = uint32(l.MTU), netlink.NsFd(n.inner.file.Fd())
		link = veth
	case model.VXLAN:
		link = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: l.VNI, Port: l.Port, SrcAddr: l.Local.AsSlice()}
	case model.WireGuard:
		return n.addTunnel(l)
	default:
		return fmt.Errorf("creating link %s: a %s is created together with its veth", l.Name, l.Kind)
	}
	if err := n.handle.LinkAdd(link); err != nil {
		return fmt.Errorf("creating link %s of kind %s: %w", l.Name, l.Kind, withHint(err, n.linkHints(l)...))
	}
	return nil
}

// MTUOf returns the MTU, in bytes, of the link that has an address. It fails if no link has the address.
func (n *Namespace) MTUOf(a netip.Addr) (int, error) {
	var all []netlink.Addr
	if err := retry(func() (err error) { all, err = n.handle.AddrList(nil, netlink.FAMILY_ALL); return err }); err != nil {
		return 0, fmt.Errorf("listing addresses: %w", err)
	}
	for _, address := range all {
		if addrOf(address.IP) != a {
			continue
		}
		var link netlink.Link
		if err := retry(func() (err error) { link, err = n.handle.LinkByIndex(address.LinkIndex); return err }); err != nil {
			return 0, fmt.Errorf("looking up the link that has %s: %w", a, err)
		}
		return link.Attrs().MTU, nil
	}
	return 0, fmt.Errorf("no link has the address %s", a)
}

// SetLink sets the MTU and the MAC of a link, and brings it up.
func (n *Namespace) SetLink(l model.Link) error {
	link, err := n.link(l.Name)
	if err != nil {
		return err
	}
	if link.Attrs().MTU != l.MTU {
		if err := n.handle.LinkSetMTU(link, l.MTU); err != nil {
			return fmt.Errorf("setting the MTU of link %s to %d: %w", l.Name, l.MTU, err)
		}
	}
	if l.MAC != (model.MAC{}) && link.Attrs().HardwareAddr.String() != l.MAC.String() {
		if err := n.handle.LinkSetHardwareAddr(link, l.MAC[:]); err != nil {
			return fmt.Errorf("setting the MAC of link %s to %s: %w", l.Name, l.MAC, err)
		}
	}
	err = n.handle.LinkSetUp(link)
	if d := n.deviceOf(l.Name); err == nil && d != nil {
		err = d.Up()
	}
	if err != nil {
		return fmt.Errorf("bringing link %s up: %w", l.Name, withHint(err, portInUse(n.portOf(l))))
	}
	return nil
}

// portOf returns the UDP port that a link uses, for hints.
func (n *Namespace) portOf(l model.Link) int {
	if l.Kind != model.WireGuard {
		return l.Port
	}
	// If the configuration cannot be read, the hint names port 0.
	t, _ := n.Tunnel(l.Name)
	return t.Port
}

// DeleteLink deletes a link and the objects on it.
func (n *Namespace) DeleteLink(name string) error {
	if n.closeDevice(name) {
		return nil
	}
	link, err := n.link(name)
	if err == nil {
		err = n.handle.LinkDel(link)
	}
	if err = ignoreGone(err); err != nil {
		return fmt.Errorf("deleting link %s: %w", name, err)
	}
	return nil
}

// Addresses returns the addresses of a link, except the link-local address that the kernel assigns.
func (n *Namespace) Addresses(link string) ([]model.Address, error) {
	l, err := n.link(link)
	if err != nil {
		return nil, err
	}
	var all []netlink.Addr
	if err := retry(func() (err error) { all, err = n.handle.AddrList(l, netlink.FAMILY_ALL); return err }); err != nil {
		return nil, fmt.Errorf("listing the addresses of link %s: %w", link, err)
	}
	var addresses []model.Address
	for _, a := range all {
		if addr := addrOf(a.IP); addr.Is4() || !addr.IsLinkLocalUnicast() {
			addresses = append(addresses, model.Address{Link: link, Addr: addr})
		}
	}
	return addresses, nil
}

// AddAddress adds an address to its link. It succeeds if the link has the address already.
func (n *Namespace) AddAddress(a model.Address) error {
	return n.address("adding", a, n.handle.AddrReplace)
}

// DeleteAddress deletes an address from its link. It succeeds if the link or the address does not exist.
func (n *Namespace) DeleteAddress(a model.Address) error {
	return ignoreGone(n.address("deleting", a, n.handle.AddrDel))
}

func (n *Namespace) address(doing string, a model.Address, do func(netlink.Link, *netlink.Addr) error) error {
	l, err := n.link(a.Link)
	if err == nil {
		err = do(l, &netlink.Addr{IPNet: netOf(prefixOf(a.Addr))})
	}
	if err != nil {
		return fmt.Errorf("%s address %s of link %s: %w", doing, a.Addr, a.Link, err)
	}
	return nil
}

// Neighbors returns the permanent neighbours of a link.
func (n *Namespace) Neighbors(link string) ([]model.Neighbor, error) {
	all, err := n.neighbors(link, netlink.FAMILY_ALL)
	var neighbors []model.Neighbor
	for _, x := range all {
		if x.State&netlink.NUD_PERMANENT != 0 && len(x.HardwareAddr) == 6 && x.Family != unix.AF_BRIDGE {
			neighbors = append(neighbors, model.Neighbor{Link: link, Addr: addrOf(x.IP), MAC: model.MAC(x.HardwareAddr)})
		}
	}
	return neighbors, err
}

// SetNeighbor creates or replaces a neighbour.
func (n *Namespace) SetNeighbor(x model.Neighbor) error {
	return n.neighbor("writing neighbour", x.Link, x.Addr, x.MAC, false, n.handle.NeighSet)
}

// DeleteNeighbor deletes a neighbour.
func (n *Namespace) DeleteNeighbor(x model.Neighbor) error {
	return ignoreGone(n.neighbor("deleting neighbour", x.Link, x.Addr, x.MAC, false, n.handle.NeighDel))
}

// FDBEntries returns the FDB entries of a VXLAN.
func (n *Namespace) FDBEntries(link string) ([]model.FDBEntry, error) {
	all, err := n.neighbors(link, unix.AF_BRIDGE)
	var entries []model.FDBEntry
	for _, x := range all {
		if len(x.HardwareAddr) == 6 && len(x.IP) > 0 {
			entries = append(entries, model.FDBEntry{Link: link, MAC: model.MAC(x.HardwareAddr), Node: addrOf(x.IP)})
		}
	}
	return entries, err
}

// SetFDBEntry creates or replaces an FDB entry.
func (n *Namespace) SetFDBEntry(x model.FDBEntry) error {
	return n.neighbor("writing FDB entry", x.Link, x.Node, x.MAC, true, n.handle.NeighSet)
}

// DeleteFDBEntry deletes an FDB entry.
func (n *Namespace) DeleteFDBEntry(x model.FDBEntry) error {
	return ignoreGone(n.neighbor("deleting FDB entry", x.Link, x.Node, x.MAC, true, n.handle.NeighDel))
}

func (n *Namespace) neighbors(link string, family int) ([]netlink.Neigh, error) {
	l, err := n.link(link)
	if err != nil {
		return nil, err
	}
	var all []netlink.Neigh
	err = retry(func() (err error) { all, err = n.handle.NeighList(l.Attrs().Index, family); return err })
	if err != nil {
		return nil, fmt.Errorf("listing the neighbours of link %s: %w", link, err)
	}
	return all, nil
}

func (n *Namespace) neighbor(
	doing, link string,
	a netip.Addr,
	mac model.MAC,
	forwarding bool,
	do func(*netlink.Neigh) error,
) error {
	l, err := n.link(link)
	if err == nil {
		x := &netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac[:]}
		if forwarding {
			x.Family, x.Flags = unix.AF_BRIDGE, netlink.NTF_SELF
		}
		err = do(x)
	}
	if err != nil {
		return fmt.Errorf("%s %s %s of link %s: %w", doing, a, mac, link, err)
	}
	return nil
}

func (n *Namespace) link(name string) (netlink.Link, error) {
	var l netlink.Link
	err := retry(func() (err error) { l, err = n.handle.LinkByName(name); return err })
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, fmt.Errorf("link %s does not exist: %w", name, unix.ENODEV)
	}
	return l, err
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// cidrOf converts a CIDR from the type of package net.
func cidrOf(n *net.IPNet) netip.Prefix {
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addrOf(n.IP), bits)
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
