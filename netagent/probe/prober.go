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

	"liqo.io/federation/netagent/model"
)

const (
	// outstanding is how many probes of a peer are remembered.
	outstanding = 4
	// window is how many answers the latency of a peer is the median of.
	window = 15
	// lossWindow is how many probes are looked at for how many are lost.
	lossWindow = 50
	// A peer is connected as long as not so many probes in a row were lost.
	mayLose = 3
	// One that is not is asked again after this share of the time for which it
	// has been silent, and after so many intervals at most.
	silentShare, silentMost = 8, 16
)

// Result is what the probes of a peer have told.
type Result struct {
	// Connected tells whether the peer answers, and Known whether that was found
	// out yet.
	Connected, Known bool
	// Latency is the median of the times of the last answers; 0 before the
	// first one.
	Latency time.Duration
	// Loss is how many of the last probes were lost, in percent; 0 while the peer is
	// not connected.
	Loss int
	// MTU is how large packets to the peer may be, in bytes. Passes is the largest
	// of them that reaches it and comes back, 0 if none does that is tried, and
	// PathKnown tells whether that was found out yet.
	MTU, Passes int
	PathKnown   bool
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
	// MTU is how large packets to the peer may be, in bytes; 0 tries none.
	MTU int
	// Key and Endpoint are the peer's. When they become others it is asked at once:
	// WireGuard looks for nobody that nothing is sent to.
	Key      [32]byte
	Endpoint netip.AddrPort
}

// peer is a peer that is probed.
type peer struct {
	target  Target
	asked   []question
	times   []time.Duration
	lost    int    // in a row
	fates   []bool // of the last probes: whether they were lost
	reached bool
	called  bool      // it was heard of otherwise than by an answer
	spoke   time.Time // when it was last heard of; before that, when it was first asked
	due     time.Time // when it is asked next
	turns   int       // of asking
	path    path
	large   question // of the size that path tries; none: of size 0
	heard   bool     // the small one that was asked with it was answered
}

type question struct {
	nonce uint64
	size  int
	at    time.Time
	turn  int
}

// Set sets which peers are probed, and where. What was found out about one
// that stays is kept.
func (p *Prober) Set(peers map[string]Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers
	p.peers, p.names = make(map[string]*peer, len(peers)), make(map[netip.AddrPort]string, len(peers))
	for name, target := range peers {
		at := netip.AddrPortFrom(target.Peer, model.EchoPort)
		if p.peers[name] = known[name]; p.peers[name] == nil || p.peers[name].target.Peer != target.Peer || p.peers[name].target.Self != target.Self {
			p.peers[name] = &peer{called: known[name] != nil && known[name].called}
		}
		known := p.peers[name]
		if known.path.agreed != target.MTU {
			known.path, known.large = path{agreed: target.MTU}, question{}
		}
		if known.target != target {
			known.target, known.due = target, time.Time{}
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
	return Result{
		Connected: known.reached, Known: known.reached || known.lost >= mayLose, Latency: median(known.times), Loss: share(known.fates),
		MTU: known.path.agreed, Passes: known.path.passes, PathKnown: known.path.known,
	}
}

// Heard has a peer asked at the next interval, since it was heard of in another
// way.
func (p *Prober) Heard(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.peers[name]; known != nil {
		known.called, known.spoke, known.due = true, time.Now(), time.Time{}
	}
}

// Asked is Heard for the peer with an address.
func (p *Prober) Asked(from netip.Addr) {
	p.mu.Lock()
	name := p.names[netip.AddrPortFrom(from, model.EchoPort)]
	p.mu.Unlock()
	p.Heard(name)
}

// Run probes each peer once an interval, and those less often that do not answer,
// through one socket of each family, until the context ends, and with large
// packets when it is time for that. A socket may be missing where a family is.
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
		for name, target := range p.targets(time.Now(), interval) {
			send := write[target.Peer.Is6()]
			for _, message := range [][]byte{p.ask(name), p.askLarge(name, time.Now())} {
				if message != nil && send != nil && p.leadsTo(name) {
					// What cannot be sent is lost, and counts as that.
					send(message, target.Self.AsSlice(), net.UDPAddrFromAddrPort(netip.AddrPortFrom(target.Peer, model.EchoPort)))
				}
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

// leadsTo tells whether WireGuard can know where a peer is: we were told where to
// call it, or it has called. What is sent to another one takes a handshake that
// nobody gets.
func (p *Prober) leadsTo(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers[name]
	return known != nil && (known.target.Endpoint.IsValid() || known.called)
}

// targets are those to ask now.
func (p *Prober) targets(now time.Time, interval time.Duration) map[string]Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	targets := make(map[string]Target, len(p.peers))
	for name, peer := range p.peers {
		if now.Before(peer.due) {
			continue
		}
		targets[name] = peer.target
		if peer.spoke.IsZero() {
			peer.spoke = now
		}
		if peer.lost >= mayLose {
			peer.due = now.Add(min(now.Sub(peer.spoke)/silentShare, silentMost*interval))
		}
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
			known.times, known.fates = nil, nil
		}
		known.fate(true)
	}
	known.turns++
	known.asked = append(known.asked, question{nonce: binary.BigEndian.Uint64(nonce[:]), size: echoSize, at: time.Now(), turn: known.turns})
	if len(known.asked) > outstanding {
		known.asked = slices.Delete(known.asked, 0, 1)
	}
	p.mu.Unlock()
	if lost {
		p.Lost(name)
	}
	return append(bytes.Clone(echoAsk), nonce[:]...)
}

// askLarge makes the next question of the size that is tried, after ask has made
// the small one. The one before is waited for until the small one with it was
// answered: then it is lost.
func (p *Prober) askLarge(name string, now time.Time) []byte {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers[name]
	if known == nil {
		return nil
	}
	switch {
	case !known.reached:
		known.path, known.large = path{agreed: known.path.agreed}, question{}
		return nil
	case known.large.size > 0 && !known.heard:
		return nil
	case known.large.size > 0:
		known.path.missed(now)
	}
	known.large, known.heard = question{}, false
	size := known.path.next(now) - headers(known.target.Peer)
	if size < echoSize {
		return nil
	}
	known.large = question{nonce: binary.BigEndian.Uint64(nonce[:]), size: size, at: now, turn: known.turns}
	message := make([]byte, size)
	copy(message[copy(message, echoAsk):], nonce[:])
	return message
}

// fate notes what became of a probe. Before the first answer there is nothing to be
// lost.
func (p *peer) fate(lost bool) {
	if !p.reached {
		return
	}
	p.fates = append(p.fates, lost)
	if len(p.fates) > lossWindow {
		p.fates = slices.Delete(p.fates, 0, 1)
	}
}

// share is how many of the last probes were lost, in percent. As long as there
// were fewer, the others count as answered.
func share(fates []bool) int {
	lost := 0
	for _, fate := range fates {
		if fate {
			lost++
		}
	}
	return 100 * lost / lossWindow
}

func (p *Prober) read(conn net.PacketConn) {
	buffer := make([]byte, maxEcho)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		sender, ok := from.(*net.UDPAddr)
		if err != nil || !ok || n < echoSize || !bytes.HasPrefix(buffer[:n], echoAnswer) {
			continue
		}
		at := sender.AddrPort()
		p.answered(netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), binary.BigEndian.Uint64(buffer[len(echoAnswer):echoSize]), n, time.Now())
	}
}

// answered notes an answer, if it is one: to a question that was asked there, is
// not too old, and was as long.
func (p *Prober) answered(from netip.AddrPort, nonce uint64, size int, now time.Time) {
	p.mu.Lock()
	name, ok := p.names[from]
	if !ok {
		p.mu.Unlock()
		return
	}
	known := p.peers[name]
	if known.large.nonce == nonce && known.large.size == size {
		known.large = question{}
		known.path.answered(now)
		p.mu.Unlock()
		return
	}
	at := slices.IndexFunc(known.asked, func(q question) bool { return q.nonce == nonce && q.size == size })
	if at < 0 {
		p.mu.Unlock()
		return
	}
	took := now.Sub(known.asked[at].at)
	switch turn := known.asked[at].turn; {
	case turn == known.large.turn:
		known.heard = true
	case turn > known.large.turn && !known.heard:
		// Both were lost, which says nothing of the size.
		known.large = question{}
	}
	// Who answers this one has had the ones before, or they are lost.
	known.asked = slices.Delete(known.asked, 0, at+1)
	first := !known.reached
	known.lost, known.reached, known.spoke, known.due = 0, true, now, time.Time{}
	if first {
		p.mu.Unlock()
		return // it took as long as the handshake that came before it
	}
	known.fate(false)
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
