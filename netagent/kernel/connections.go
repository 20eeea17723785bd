// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// FlushConnections deletes the connections to which one of the translations was applied. There may be hundreds
// of thousands of connections: they are filtered while being read.
func (n *Namespace) FlushConnections(f model.Family, translations []Translation) error {
	all := newStale(translations)
	if err := retry(func() error { return n.flush(f, all) }); err != nil {
		return fmt.Errorf("flushing connections with outdated translations: %w", err)
	}
	return nil
}

// flush reads all connections once and deletes the matching ones, also those found by a read that was
// interrupted.
func (n *Namespace) flush(f model.Family, all stale) error {
	socket, err := nl.GetNetlinkSocketAt(netns.NsHandle(n.file.Fd()), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := errors.Join(
		socket.SetSendTimeout(&nl.SocketTimeoutTv), socket.SetReceiveTimeout(&nl.SocketTimeoutTv),
	); err != nil {
		return err
	}
	request := func(operation, flags int, attributes []byte, each func(message []byte)) error {
		r := nl.NewNetlinkRequest(netlink.ConntrackTable<<8|operation, flags)
		r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket, Seq: r.Seq}}
		family := uint8(unix.AF_INET)
		if f == model.IPv6 {
			family = unix.AF_INET6
		}
		r.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
		r.AddRawData(attributes)
		return r.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool { each(message); return true })
	}
	var found [][]byte
	read := request(nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, nil, func(message []byte) {
		if all.matches(connectionOf(message)) {
			// A copy, so that the rest of the socket's buffer is not retained.
			found = append(found, slices.Clone(message[nl.SizeofNfgenmsg:]))
		}
	})
	if read != nil && !errors.Is(read, netlink.ErrDumpInterrupted) {
		return read
	}
	errs := []error{read}
	for _, attributes := range found {
		// The attributes include the ID, so that a newer connection with the same addresses stays.
		err := request(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, attributes, func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// connection holds the addresses of a conntrack entry: those of the original direction and those of replies.
type connection struct{ from, to, replyFrom, replyTo netip.Addr }

// connectionOf parses a conntrack message. Missing addresses are invalid.
func connectionOf(message []byte) connection {
	var c connection
	if len(message) < nl.SizeofNfgenmsg {
		return c
	}
	eachAttribute(message[nl.SizeofNfgenmsg:], func(kind uint16, tuple []byte) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			c.from, c.to = tupleAddresses(tuple)
		case nl.CTA_TUPLE_REPLY:
			c.replyFrom, c.replyTo = tupleAddresses(tuple)
		}
	})
	return c
}

// tupleAddresses returns the source and the destination of one direction.
func tupleAddresses(tuple []byte) (from, to netip.Addr) {
	eachAttribute(tuple, func(kind uint16, addresses []byte) {
		if kind != nl.CTA_TUPLE_IP {
			return
		}
		eachAttribute(addresses, func(kind uint16, address []byte) {
			switch kind {
			case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
				from, _ = netip.AddrFromSlice(address)
			case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
				to, _ = netip.AddrFromSlice(address)
			}
		})
	})
	return from, to
}

// eachAttribute calls f for consecutive netlink attributes, up to one that is truncated.
func eachAttribute(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= nl.SizeofNfattr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < nl.SizeofNfattr || length > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&nl.NLA_TYPE_MASK, b[nl.SizeofNfattr:length])
		const align = int(nl.NLA_ALIGNTO)
		b = b[min((length+align-1)&^(align-1), len(b)):]
	}
}

// stale is a set of translations, with the union of their With to reject most connections quickly.
type stale struct {
	translations []Translation
	with         []netip.Prefix
}

func newStale(translations []Translation) stale {
	s := stale{translations: translations}
	for _, t := range translations {
		s.with = append(s.with, t.With...)
	}
	slices.SortFunc(s.with, model.ComparePrefix)
	s.with = slices.Compact(s.with)
	return s
}

// matches reports whether one of the translations was applied to a connection, according to the addresses of its
// replies. The destination of replies does not count as an involved address: it may be an address that
// represents the local cluster to one peer and belongs to another peer.
func (s stale) matches(c connection) bool {
	involves := func(ranges []netip.Prefix) bool {
		return within(ranges, c.from) || within(ranges, c.to) || within(ranges, c.replyFrom)
	}
	return involves(s.with) && slices.ContainsFunc(s.translations, func(t Translation) bool {
		return (t.To.Contains(c.replyFrom) || t.To.Contains(c.replyTo)) && involves(t.With)
	})
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
