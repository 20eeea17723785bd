// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe finds out who is there: peers' gateways through the tunnel, and
// the gateways of one cluster among each other. Every answer is as long as its
// question, and strangers get none.
package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// outstanding is how many probes of a peer are remembered.
	outstanding = 4
	// window is how many answers the latency of a peer is the median of.
	window = 15
	// A peer is connected as long as not so many probes in a row were lost.
	mayLose = 3
)

// Result is what the probes of a peer have told.
type Result struct {
	// Connected tells whether the peer answers, and Known whether that was found
	// out yet.
	Connected, Known bool
	// Latency is the median of the times of the last answers; 0 before the
	// first one.
	Latency time.Duration
}

// Prober probes peers through the tunnel.
type Prober struct {
	// Answered is told of each answer and Lost of each probe without one, by
	// the peer's name.
	Answered func(name string, took time.Duration)
	Lost     func(name string)

	mu    sync.Mutex
	peers map[string]*peer
	names map[netip.AddrPort]string
}

// Target is where a peer's gateway answers, and the address of our own that a
// probe leaves from.
type Target struct {
	Peer, Self netip.Addr
}

// peer is a peer that is probed.
type peer struct {
	at      netip.AddrPort
	self    netip.Addr
	asked   []question
	times   []time.Duration
	lost    int // in a row
	reached bool
}

type question struct {
	nonce uint64
	at    time.Time
}

// Set sets which peers are probed, and where. What was found out about one
// that stays is kept.
func (p *Prober) Set(peers map[string]Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers
	p.peers, p.names = make(map[string]*peer, len(peers)), make(map[netip.AddrPort]string, len(peers))
	for name, target := range peers {
		at := netip.AddrPortFrom(target.Peer, EchoPort)
		if p.peers[name] = known[name]; p.peers[name] == nil || p.peers[name].at != at || p.peers[name].self != target.Self {
			p.peers[name] = &peer{at: at, self: target.Self}
		}
		p.names[at] = name
	}
}

// Result tells what is known of a peer.
func (p *Prober) Result(name string) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers[name]
	if known == nil {
		return Result{}
	}
	return Result{Connected: known.reached, Known: known.reached || known.lost >= mayLose, Latency: median(known.times)}
}

// Run probes each peer once an interval, through one socket of each family,
// until the context ends. A socket may be missing where a family is.
func (p *Prober) Run(ctx context.Context, conn4, conn6 net.PacketConn, interval time.Duration) error {
	var reading sync.WaitGroup
	write := make(map[bool]func([]byte, net.IP, net.Addr)) // by whether it is IPv6
	for isIPv6, conn := range map[bool]net.PacketConn{false: conn4, true: conn6} {
		if conn == nil {
			continue
		}
		defer conn.Close()
		context.AfterFunc(ctx, func() { conn.Close() })
		var err error
		if _, write[isIPv6], err = withDestination(conn, isIPv6); err != nil {
			return fmt.Errorf("probing peers: %w", err)
		}
		reading.Go(func() { p.read(conn) })
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		for name, target := range p.targets() {
			send := write[target.Peer.Is6()]
			if message := p.ask(name); message != nil && send != nil {
				// What cannot be sent is lost, and counts as that.
				send(message, target.Self.AsSlice(), net.UDPAddrFromAddrPort(netip.AddrPortFrom(target.Peer, EchoPort)))
			}
		}
		select {
		case <-ctx.Done():
			reading.Wait()
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Prober) targets() map[string]Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	targets := make(map[string]Target, len(p.peers))
	for name, peer := range p.peers {
		targets[name] = Target{Peer: peer.at.Addr(), Self: peer.self}
	}
	return targets
}

// ask makes the next question to a peer, and counts the one before as lost if
// it was not answered.
func (p *Prober) ask(name string) []byte {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil
	}
	p.mu.Lock()
	known := p.peers[name]
	if known == nil {
		p.mu.Unlock()
		return nil
	}
	lost := len(known.asked) > 0
	if lost {
		if known.lost++; known.lost >= mayLose {
			known.reached = false
			known.times = nil
		}
	}
	known.asked = append(known.asked, question{nonce: binary.BigEndian.Uint64(nonce[:]), at: time.Now()})
	if len(known.asked) > outstanding {
		known.asked = slices.Delete(known.asked, 0, 1)
	}
	p.mu.Unlock()
	if lost {
		p.Lost(name)
	}
	return append(bytes.Clone(echoAsk), nonce[:]...)
}

func (p *Prober) read(conn net.PacketConn) {
	buffer := make([]byte, echoSize+1)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		sender, ok := from.(*net.UDPAddr)
		if err != nil || !ok || n != echoSize || !bytes.HasPrefix(buffer[:n], echoAnswer) {
			continue
		}
		at := sender.AddrPort()
		p.answered(netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), binary.BigEndian.Uint64(buffer[len(echoAnswer):n]), time.Now())
	}
}

// answered notes an answer, if it is one: to a question that was asked there
// and is not too old.
func (p *Prober) answered(from netip.AddrPort, nonce uint64, now time.Time) {
	p.mu.Lock()
	name, ok := p.names[from]
	if !ok {
		p.mu.Unlock()
		return
	}
	known := p.peers[name]
	at := slices.IndexFunc(known.asked, func(q question) bool { return q.nonce == nonce })
	if at < 0 {
		p.mu.Unlock()
		return
	}
	took := now.Sub(known.asked[at].at)
	// Who answers this one has had the ones before, or they are lost.
	known.asked = slices.Delete(known.asked, 0, at+1)
	known.lost, known.reached = 0, true
	known.times = append(known.times, took)
	if len(known.times) > window {
		known.times = slices.Delete(known.times, 0, 1)
	}
	p.mu.Unlock()
	p.Answered(name, took)
}

// median is the middle one; 0 of none.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(times), cmp.Compare)
	return sorted[len(sorted)/2]
}
