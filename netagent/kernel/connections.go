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

// FlushConnections deletes the conntrack entries of connections to which one of the translations was applied. It
// filters the entries while it reads them, as there may be hundreds of thousands.
func (n *Namespace) FlushConnections(f model.Family, translations []Translation) error {
	all := newStale(translations)
	if err := retry(func() error { return n.flush(f, all) }); err != nil {
		return fmt.Errorf("flushing connections with outdated translations: %w", err)
	}
	return nil
}

// flush reads all conntrack entries once and deletes those that match. If the read was interrupted, it deletes
// the matching entries read so far and returns the error.
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
			// The copy lets the rest of the socket's buffer be freed.
			found = append(found, slices.Clone(message[nl.SizeofNfgenmsg:]))
		}
	})
	if read != nil && !errors.Is(read, netlink.ErrDumpInterrupted) {
		return read
	}
	errs := []error{read}
	for _, attributes := range found {
		// The attributes include the ID, so that a newer connection with the same addresses is not deleted.
		err := request(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, attributes, func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// connection holds the addresses of a conntrack entry: source and destination of the original direction, and of
// replies.
type connection struct{ from, to, replyFrom, replyTo netip.Addr }

// connectionOf parses a conntrack message. Addresses that the message does not have are invalid.
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

// tupleAddresses returns the source and the destination in the attributes of one direction.
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

// eachAttribute calls f for each of the consecutive netlink attributes in b, until one is truncated.
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

// stale lists translations that no longer apply, whose connections are deleted. with is the union of the ranges With
// of the translations: a connection that involves none of them is excluded without comparing each translation.
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

// matches reports whether a connection uses one of the translations: the source or the destination of its replies is
// in To, and its source, its destination or the source of its replies is in With. The destination of replies is not
// compared with With: it may represent the local cluster to one peer and be in the range of another peer.
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
