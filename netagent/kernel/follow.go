// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// followBuffer is the size of a socket's receive buffer in bytes. It must hold the notifications of thousands of
// rules that another program changes at once.
const followBuffer = 4 << 20

// Follow calls changed whenever a link of the agents changes, and whenever a route, a rule or a chain of the agents is
// deleted or flushed by any process, until the context ends. The kernel sends no notifications for chains of
// iptables-legacy. Follow fails if the iptables backend is not known yet, as it would miss changes of chains.
func (n *Namespace) Follow(ctx context.Context, changed func()) error {
	b, err := n.backend()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return n.follow(ctx, changed, concernsOwned, unix.NETLINK_ROUTE,
			unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	})
	if b == nft {
		group.Go(func() error {
			return n.follow(ctx, changed, concernsChains, unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
		})
	}
	return group.Wait()
}

func (n *Namespace) follow(
	ctx context.Context,
	changed func(),
	concerns func(syscall.NetlinkMessage) bool,
	protocol int,
	groups ...uint,
) error {
	socket, err := nl.SubscribeAt(netns.NsHandle(n.file.Fd()), netns.None(), protocol, groups...)
	if err == nil {
		defer socket.Close()
		err = socket.SetReceiveBufferSize(followBuffer, true)
	}
	if err != nil {
		return fmt.Errorf("watching the network namespace %s: %w", n.file.Name(), err)
	}
	stop := context.AfterFunc(ctx, socket.Close)
	defer stop()
	for {
		messages, _, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			changed() // notifications were dropped
		case err != nil:
			return fmt.Errorf("watching the network namespace %s: %w", n.file.Name(), err)
		case slices.ContainsFunc(messages, concerns):
			changed()
		}
	}
}

// concernsOwned reports whether a message is about a link of the agents, or about the deletion of one of their routes
// or rules. Added routes and rules are ignored, as this process adds most of them.
func concernsOwned(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		name := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_IFNAME)
		return strings.HasPrefix(string(name), model.LinkPrefix)
	case unix.RTM_DELROUTE:
		return len(m.Data) >= unix.SizeofRtMsg && nl.DeserializeRtMsg(m.Data).Protocol == model.RouteProtocol
	case unix.RTM_DELRULE:
		// Messages of rules and of routes have headers of the same size.
		protocol := attribute(m.Data, unix.SizeofRtMsg, nl.FRA_PROTOCOL)
		return len(protocol) == 1 && protocol[0] == model.RouteProtocol
	}
	return false
}

// concernsChains reports whether a message is about a chain of the agents that was deleted or flushed, or about a rule
// deleted from a built-in chain, which may be the jump to a chain of the agents.
func concernsChains(m syscall.NetlinkMessage) bool {
	var chain []byte
	switch m.Header.Type {
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELRULE:
		chain = attribute(m.Data, nl.SizeofNfgenmsg, unix.NFTA_RULE_CHAIN)
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELCHAIN:
		chain = attribute(m.Data, nl.SizeofNfgenmsg, unix.NFTA_CHAIN_NAME)
	}
	switch name := strings.TrimRight(string(chain), "\x00"); name {
	case "PREROUTING", "INPUT", "FORWARD", "POSTROUTING":
		return true
	default:
		return strings.HasPrefix(name, model.ChainPrefix)
	}
}

// attribute returns the value of an attribute of a message, whose header has the given size; nil if the message
// has no such attribute.
func attribute(message []byte, header int, kind uint16) []byte {
	if len(message) < header {
		return nil
	}
	all, err := nl.ParseRouteAttrAsMap(message[header:])
	if err != nil {
		return nil
	}
	return all[kind].Value
}
