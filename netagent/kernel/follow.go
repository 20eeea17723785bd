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
	"golang.org/x/sys/unix"

	"liqo.io/federation/netagent/model"
)

// Follow calls changed whenever a link of ours came, went or became another
// one, and when a route or a rule of ours was deleted, until the context ends.
// It does not tell who did it: what we delete ourselves is told as well.
func (n *Namespace) Follow(ctx context.Context, changed func()) error {
	socket, err := nl.SubscribeAt(netns.NsHandle(n.file.Fd()), netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return fmt.Errorf("following changes in the network namespace %s: %w", n.file.Name(), err)
	}
	defer socket.Close()
	stop := context.AfterFunc(ctx, socket.Close)
	defer stop()
	for {
		messages, _, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			changed() // there was more than the socket could hold
		case err != nil:
			return fmt.Errorf("following changes in the network namespace %s: %w", n.file.Name(), err)
		case slices.ContainsFunc(messages, concernsUs):
			changed()
		}
	}
}

// concernsUs tells whether a message is about something of ours. Routes and
// rules that are written are left out, since we write most of them.
func concernsUs(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		name := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_IFNAME)
		return strings.HasPrefix(string(name), model.LinkPrefix)
	case unix.RTM_DELROUTE:
		return len(m.Data) >= unix.SizeofRtMsg && nl.DeserializeRtMsg(m.Data).Protocol == model.RouteProtocol
	case unix.RTM_DELRULE:
		// The header of a rule is as long as that of a route.
		protocol := attribute(m.Data, unix.SizeofRtMsg, nl.FRA_PROTOCOL)
		return len(protocol) == 1 && protocol[0] == model.RouteProtocol
	}
	return false
}

// attribute is one that follows the header of a message; nil if there is none.
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
