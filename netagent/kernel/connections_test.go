// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The node 172.18.0.2 of rome, whose pods are in 10.0.0.0/16. In rome, milan's pods are remapped to 10.1.0.0/16
// and naples' to 10.2.0.0/16. In milan, rome's pods are remapped to 10.2.0.0/16 too.
func TestStaleTranslationsMatchConnectionsOfTheirPeers(t *testing.T) {
	pods, milan, naples := netip.MustParsePrefix(
		"10.0.0.0/16",
	), netip.MustParsePrefix(
		"10.1.0.0/16",
	), netip.MustParsePrefix(
		"10.2.0.0/16",
	)
	anything := netip.MustParsePrefix("0.0.0.0/0")
	for name, test := range map[string]struct {
		translation            Translation
		from, to               string // of the first packet
		answeredBy, answeredTo string // of replies
		want                   bool
	}{
		"from a pod to the peer": {
			Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.0.1.2", true,
		},
		"from the peer to a pod": {
			Translation{pods, []netip.Prefix{milan}}, "10.1.1.2", "10.0.1.2", "10.0.1.2", "10.1.1.2", true,
		},
		"from a pod to a Service of the peer's pods": {
			Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.96.0.9", "10.1.1.2", "10.0.1.2", true,
		},
		"a pod that was masqueraded": {
			Translation{anything, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "172.18.0.2", true,
		},
		"another peer": {
			Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.2.1.2", "10.2.1.2", "10.0.1.2", false,
		},
		"a pod and a pod": {
			Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.0.1.3", "10.0.1.3", "10.0.1.2", false,
		},
		"from a pod to a Service": {
			Translation{anything, []netip.Prefix{milan}}, "10.0.1.2", "10.96.0.1", "172.18.0.3", "172.18.0.2", false,
		},
		"two pods, without a peer": {
			Translation{pods, nil}, "10.0.1.2", "10.0.1.3", "10.0.1.3", "10.0.1.2", false,
		},
		"translated to another address": {
			Translation{pods, []netip.Prefix{milan}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.2.1.2", false,
		},
		"from milan, which uses the range that naples has in rome": {
			Translation{anything, []netip.Prefix{naples}}, "10.0.1.2", "10.1.1.2", "10.1.1.2", "10.2.1.2", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := connection{
				netip.MustParseAddr(test.from),
				netip.MustParseAddr(test.to),
				netip.MustParseAddr(test.answeredBy),
				netip.MustParseAddr(test.answeredTo),
			}
			if got := newStale([]Translation{test.translation}).matches(c); got != test.want {
				t.Errorf("matches: %v", got)
			}
		})
	}
}

// message returns the conntrack message of a connection.
func message(c connection) []byte {
	tuple := func(kind int, from, to netip.Addr) *nl.RtAttr {
		src, dst := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
		if from.Is6() {
			src, dst = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
		}
		direction := nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil)
		addresses := direction.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
		addresses.AddRtAttr(src, from.AsSlice())
		addresses.AddRtAttr(dst, to.AsSlice())
		direction.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil).AddRtAttr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_UDP})
		return direction
	}
	b := (&nl.Nfgenmsg{NfgenFamily: unix.AF_INET}).Serialize()
	b = append(b, tuple(nl.CTA_TUPLE_ORIG, c.from, c.to).Serialize()...)
	b = append(b, tuple(nl.CTA_TUPLE_REPLY, c.replyFrom, c.replyTo).Serialize()...)
	return append(b, nl.NewRtAttr(nl.CTA_STATUS, nl.BEUint32Attr(14)).Serialize()...)
}

func TestTruncatedConnectionMessagesAreParsed(t *testing.T) {
	for _, want := range []connection{
		{
			netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("10.96.0.9"), netip.MustParseAddr("10.1.1.2"),
			netip.MustParseAddr("10.2.1.2"),
		},
		{
			netip.MustParseAddr("fd10::2"), netip.MustParseAddr("fd96::9"), netip.MustParseAddr("fd11::2"),
			netip.MustParseAddr("fd12::2"),
		},
	} {
		whole := message(want)
		if got := connectionOf(whole); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for length := range whole {
			for _, end := range []netip.Addr{connectionOf(whole[:length]).from, connectionOf(whole[:length]).replyTo} {
				if end.IsValid() && end != want.from && end != want.replyTo {
					t.Errorf("got address %[2]s from %[1]d bytes", length, end)
				}
			}
		}
	}
}
