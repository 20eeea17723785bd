// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"
)

const (
	// A message consists of its type, a nonce, and padding.
	echoSize = 4 + 8
	maxEcho  = 65535
	// repliesPerSecond and replyBurst limit the replies to one peer.
	repliesPerSecond = 20
	replyBurst       = 40
)

var (
	echoRequest = []byte("LQE1")
	echoReply   = []byte("LQR1")
)

// Echo replies to probes of peers. It identifies a peer by the source address of the probe, which WireGuard
// authenticates.
type Echo struct {
	// OnProbe is called for each reply, with the address of the peer; nil disables it.
	OnProbe func(from netip.Addr)

	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
}

// Allow sets the source addresses that Echo replies to: the addresses of the peers' gateways.
func (e *Echo) Allow(peers []netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	previous := e.peers
	e.peers = make(map[netip.Addr]*rate.Limiter, len(peers))
	for _, p := range peers {
		if e.peers[p] = previous[p]; e.peers[p] == nil {
			e.peers[p] = rate.NewLimiter(repliesPerSecond, replyBurst)
		}
	}
}

// reply returns the reply to a message; nil if the message is malformed or from an unknown source, or the source
// exceeds repliesPerSecond and replyBurst.
func (e *Echo) reply(message []byte, from netip.Addr) []byte {
	if len(message) < echoSize || !bytes.HasPrefix(message, echoRequest) {
		return nil
	}
	e.mu.Lock()
	limiter := e.peers[from.Unmap()]
	e.mu.Unlock()
	if limiter == nil || !limiter.Allow() {
		return nil
	}
	return append(bytes.Clone(echoReply), message[len(echoRequest):]...)
}

// Serve replies to probes on a socket of one family until the context ends. Each reply has the destination of the
// probe as its source. It fails if the socket cannot be configured.
func (e *Echo) Serve(ctx context.Context, conn net.PacketConn, isIPv6 bool) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	read, write, err := withDestination(conn, isIPv6)
	if err != nil {
		conn.Close()
		return err
	}
	buffer := make([]byte, maxEcho)
	for {
		n, destination, from, err := read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // an ICMP error caused by an earlier reply
		}
		sender, ok := from.(*net.UDPAddr)
		if !ok {
			continue
		}
		if answer := e.reply(buffer[:n], sender.AddrPort().Addr()); answer != nil {
			write(answer, destination, from)
			if e.OnProbe != nil {
				e.OnProbe(sender.AddrPort().Addr().Unmap())
			}
		}
	}
}

// withDestination returns a function that reads a datagram with its destination, and a function that writes a
// datagram with a given source, unfragmented. It fails if the socket cannot be configured.
func withDestination(conn net.PacketConn, isIPv6 bool) (
	read func([]byte) (int, net.IP, net.Addr, error), write func([]byte, net.IP, net.Addr), err error,
) {
	if err := disableFragmentation(conn, isIPv6); err != nil {
		return nil, nil, fmt.Errorf("disabling fragmentation: %w", err)
	}
	if isIPv6 {
		c := ipv6.NewPacketConn(conn)
		read = func(b []byte) (int, net.IP, net.Addr, error) {
			n, control, from, err := c.ReadFrom(b)
			if control == nil {
				return n, nil, from, err
			}
			return n, control.Dst, from, err
		}
		write = func(b []byte, source net.IP, to net.Addr) { _, _ = c.WriteTo(b, &ipv6.ControlMessage{Src: source}, to) }
		return read, write, c.SetControlMessage(ipv6.FlagDst, true)
	}
	c := ipv4.NewPacketConn(conn)
	read = func(b []byte) (int, net.IP, net.Addr, error) {
		n, control, from, err := c.ReadFrom(b)
		if control == nil {
			return n, nil, from, err
		}
		return n, control.Dst, from, err
	}
	write = func(b []byte, source net.IP, to net.Addr) { _, _ = c.WriteTo(b, &ipv4.ControlMessage{Src: source}, to) }
	return read, write, c.SetControlMessage(ipv4.FlagDst, true)
}
