// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func TestOnlyOwnedObjectsTriggerAPass(t *testing.T) {
	link := func(name string) []byte {
		return append(
			nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize(),
			nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)).Serialize()...)
	}
	route := func(protocol uint8) []byte {
		header := nl.NewRtDelMsg()
		header.Protocol = protocol
		return header.Serialize()
	}
	rule := func(protocol uint8) []byte {
		return append(nl.NewRtMsg().Serialize(), nl.NewRtAttr(nl.FRA_PROTOCOL, []byte{protocol}).Serialize()...)
	}
	for name, test := range map[string]struct {
		kind uint16
		data []byte
		want bool
	}{
		"an owned link is created":              {unix.RTM_NEWLINK, link("liqo.vxlan"), true},
		"an owned link is deleted":              {unix.RTM_DELLINK, link("liqo.vxlan"), true},
		"a link of another program":             {unix.RTM_DELLINK, link("eth0"), false},
		"an owned route is deleted":             {unix.RTM_DELROUTE, route(58), true},
		"an owned route is written":             {unix.RTM_NEWROUTE, route(58), false},
		"a route of another program is deleted": {unix.RTM_DELROUTE, route(unix.RTPROT_BOOT), false},
		"an owned rule is deleted":              {unix.RTM_DELRULE, rule(58), true},
		"an owned rule is written":              {unix.RTM_NEWRULE, rule(58), false},
		"a rule of another program is deleted":  {unix.RTM_DELRULE, rule(unix.RTPROT_KERNEL), false},
		"a rule without attributes":             {unix.RTM_DELRULE, nl.NewRtMsg().Serialize(), false},
		"a link without a header":               {unix.RTM_NEWLINK, nil, false},
		"a route without a header":              {unix.RTM_DELROUTE, route(58)[:5], false},
		"a rule that is cut off":                {unix.RTM_DELRULE, rule(58)[:unix.SizeofRtMsg+3], false},
		"a rule with a broken attribute":        {unix.RTM_DELRULE, append(nl.NewRtMsg().Serialize(), 0, 0, 0, 0), false},
		"another type of message":               {unix.RTM_NEWNEIGH, link("liqo.vxlan"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := concernsOwned(
				syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: test.kind}, Data: test.data},
			); got != test.want {
				t.Errorf("concernsOwned: %v", got)
			}
		})
	}
}

func TestOnlyOwnedAndBaseChainsTriggerAPass(t *testing.T) {
	const kind = unix.NFNL_SUBSYS_NFTABLES << 8
	message := func(attribute int, name string) []byte {
		return append(
			(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET}).Serialize(),
			nl.NewRtAttr(attribute, nl.ZeroTerminated(name)).Serialize()...)
	}
	for name, test := range map[string]struct {
		kind uint16
		data []byte
		want bool
	}{
		"an owned chain loses a rule": {
			kind | unix.NFT_MSG_DELRULE, message(unix.NFTA_RULE_CHAIN, "LIQO-PREROUTING"), true,
		},
		"an owned chain is deleted": {
			kind | unix.NFT_MSG_DELCHAIN, message(unix.NFTA_CHAIN_NAME, "LIQO-PREROUTING"), true,
		},
		"a built-in chain loses a rule": {kind | unix.NFT_MSG_DELRULE, message(unix.NFTA_RULE_CHAIN, "POSTROUTING"), true},
		"an owned chain gets a rule": {
			kind | unix.NFT_MSG_NEWRULE, message(unix.NFTA_RULE_CHAIN, "LIQO-PREROUTING"), false,
		},
		"a chain of another program loses a rule": {
			kind | unix.NFT_MSG_DELRULE, message(unix.NFTA_RULE_CHAIN, "KUBE-SERVICES"), false,
		},
		"a rule without attributes": {kind | unix.NFT_MSG_DELRULE, (&nl.Nfgenmsg{}).Serialize(), false},
		"a rule without a header":   {kind | unix.NFT_MSG_DELRULE, nil, false},
		"another type of message":   {unix.RTM_DELRULE, message(unix.NFTA_RULE_CHAIN, "LIQO-PREROUTING"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := concernsChains(
				syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: test.kind}, Data: test.data},
			); got != test.want {
				t.Errorf("concernsChains: %v", got)
			}
		})
	}
}
