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
	// A message has a word, a number, and as many bytes more as it is to be long.
	echoSize = 4 + 8
	maxEcho  = 65535
	// A peer gets so many answers a second, and so many at once.
	answersPerSecond = 20
	answersAtOnce    = 40
)

var (
	echoAsk    = []byte("LQE1")
	echoAnswer = []byte("LQR1")
)

// Echo answers the probes of peers. WireGuard knows who sent a packet, and lets
// each peer send from its own addresses only, so the address tells who asks.
type Echo struct {
	// Asked is told of each peer that is answered; nil: nobody is.
	Asked func(from netip.Addr)

	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
}

// Allow sets the addresses that are answered: those of the peers' gateways.
func (e *Echo) Allow(peers []netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.peers
	e.peers = make(map[netip.Addr]*rate.Limiter, len(peers))
	for _, p := range peers {
		if e.peers[p] = known[p]; e.peers[p] == nil {
			e.peers[p] = rate.NewLimiter(answersPerSecond, answersAtOnce)
		}
	}
}

// answer makes the answer to a message; nil if there is none.
func (e *Echo) answer(message []byte, from netip.Addr) []byte {
	if len(message) < echoSize || !bytes.HasPrefix(message, echoAsk) {
		return nil
	}
	e.mu.Lock()
	limiter := e.peers[from.Unmap()]
	e.mu.Unlock()
	if limiter == nil || !limiter.Allow() {
		return nil
	}
	return append(bytes.Clone(echoAnswer), message[len(echoAsk):]...)
}

// Serve answers on a socket of one family until the context ends, each from
// the address that was asked.
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
		n, asked, from, err := read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // what an earlier answer met on its way
		}
		sender, ok := from.(*net.UDPAddr)
		if !ok {
			continue
		}
		if answer := e.answer(buffer[:n], sender.AddrPort().Addr()); answer != nil {
			write(answer, asked, from)
			if e.Asked != nil {
				e.Asked(sender.AddrPort().Addr().Unmap())
			}
		}
	}
}

// withDestination reads datagrams with the address that each was sent to, and
// writes them from a given one, in one piece.
func withDestination(conn net.PacketConn, isIPv6 bool) (
	read func([]byte) (int, net.IP, net.Addr, error), write func([]byte, net.IP, net.Addr), err error,
) {
	if err := unfragmented(conn, isIPv6); err != nil {
		return nil, nil, fmt.Errorf("having packets sent in one piece: %w", err)
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
