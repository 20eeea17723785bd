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

// ForgetConnections forgets the connections that were translated so. A node may
// remember hundreds of thousands: each is looked at as it is read, and only those
// that are to go are kept.
func (n *Namespace) ForgetConnections(f model.Family, translations []Translation) error {
	all := newStale(translations)
	if err := retry(func() error { return n.forget(f, all) }); err != nil {
		return fmt.Errorf("forgetting connections whose addresses are translated otherwise now: %w", err)
	}
	return nil
}

// forget reads all connections once. What an interrupted look has found goes as
// well.
func (n *Namespace) forget(f model.Family, all stale) error {
	socket, err := nl.GetNetlinkSocketAt(netns.NsHandle(n.file.Fd()), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := errors.Join(socket.SetSendTimeout(&nl.SocketTimeoutTv), socket.SetReceiveTimeout(&nl.SocketTimeoutTv)); err != nil {
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
		if all.has(connectionOf(message)) {
			// What is around it in the socket's buffer is not kept.
			found = append(found, slices.Clone(message[nl.SizeofNfgenmsg:]))
		}
	})
	if read != nil && !errors.Is(read, netlink.ErrDumpInterrupted) {
		return read
	}
	errs := []error{read}
	for _, attributes := range found {
		// Its id is among them: one that came after it with the same addresses stays.
		err := request(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, attributes, func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// connection is what the kernel remembers of one: who called whom, before any
// translation, and who answers to what the addresses have become.
type connection struct{ from, to, answeredBy, answeredTo netip.Addr }

// connectionOf reads a message about a connection.
func connectionOf(message []byte) connection {
	var c connection
	if len(message) < nl.SizeofNfgenmsg {
		return c
	}
	eachAttribute(message[nl.SizeofNfgenmsg:], func(kind uint16, tuple []byte) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			c.from, c.to = ends(tuple)
		case nl.CTA_TUPLE_REPLY:
			c.answeredBy, c.answeredTo = ends(tuple)
		}
	})
	return c
}

// ends are source and destination of one direction.
func ends(tuple []byte) (from, to netip.Addr) {
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

// eachAttribute calls f with the attributes that follow each other, up to one that
// is cut off.
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

// stale are translations, and the ranges of all of them: most connections are
// with nobody who is in one.
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

// has tells whether one of the translations was made to a connection. Its answers
// are sent to what the addresses have become, by who was called in the end: of a
// Service, one of its endpoints. What we are called by a peer is left out of who
// it is with, since that may be what we call another one.
func (s stale) has(c connection) bool {
	concerns := func(ranges []netip.Prefix) bool {
		return within(ranges, c.from) || within(ranges, c.to) || within(ranges, c.answeredBy)
	}
	return concerns(s.with) && slices.ContainsFunc(s.translations, func(t Translation) bool {
		return (t.To.Contains(c.answeredBy) || t.To.Contains(c.answeredTo)) && concerns(t.With)
	})
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
