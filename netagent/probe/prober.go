// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe checks whether gateways are alive. A gateway probes the gateways of peers through the tunnel
// (Prober, Echo), and the other gateways of the local cluster (Query, Beacon). A reply is as long as its request,
// and only authenticated clients receive one.
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
	// outstanding is the number of latest probes of a peer to which a reply is accepted.
	outstanding = 4
	// window is the number of replies over which the median latency is computed.
	window = 15
	// lossWindow is the number of probes over which the loss is computed.
	lossWindow = 50
	// lossThreshold is the number of consecutive lost probes after which a peer is not connected.
	lossThreshold = 3
	// The time between probes of a peer that is not connected is 1/backoffDivisor of the time since it was last
	// reachable, and at most backoffIntervals intervals.
	backoffDivisor, backoffIntervals = 8, 16
)

// Result is the result of probing a peer.
type Result struct {
	// Connected reports whether the peer replies. It is valid only if Known is set.
	Connected, Known bool
	// Latency is the median latency of the last replies, at most window; 0 before the second one.
	Latency time.Duration
	// Loss is the number of lost probes among the last ones, in percent of lossWindow; 0 while the peer is not
	// connected.
	Loss int
	// MTU is the size of the largest packets that are probed, in bytes. PathMTU is the size of the largest packets that
	// pass, in bytes, 0 if none do. PathMTU is valid only if PathMTUKnown is set.
	MTU, PathMTU int
	PathMTUKnown bool
}

// Prober probes the gateways of peers through the tunnel.
type Prober struct {
	// OnReply is called for each reply, with the name of the peer and the latency, and OnLoss for each lost probe.
	OnReply func(name string, took time.Duration)
	OnLoss  func(name string)

	mu    sync.Mutex
	peers map[string]*peer
	names map[netip.AddrPort]string
}

// Target is the address of a peer's gateway (Peer), and the local address that probes are sent from (Self).
type Target struct {
	Peer, Self netip.Addr
	// MTU is the size of the largest packets to probe, in bytes; 0 disables measuring the path MTU.
	MTU int
	// Key and Endpoint are the public key and the endpoint of the peer in WireGuard. A change of either triggers a probe,
	// because WireGuard starts a handshake only when packets are sent.
	Key      [32]byte
	Endpoint netip.AddrPort
}

// peer is the state of probing one peer.
type peer struct {
	target       Target
	pending      []request
	times        []time.Duration
	lost         int    // consecutive
	outcomes     []bool // of the last probes: true if lost
	reached      bool
	contacted    bool      // it has sent packets, with or without replies to probes
	lastSeen     time.Time // when it was last reachable, initially when it was first probed
	due          time.Time // time of the next probe
	rounds       int       // number of probes so far
	path         path
	large        request // pending probe of the path MTU; its size is 0 if none is pending
	smallReplied bool    // the small probe sent together with large has a reply
}

type request struct {
	nonce uint64
	size  int
	at    time.Time
	round int
}

// Set sets the peers to probe, by name. A peer whose addresses have not changed keeps its result, except for the path
// MTU if Target.MTU has changed.
func (p *Prober) Set(peers map[string]Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	previous := p.peers
	p.peers, p.names = make(map[string]*peer, len(peers)), make(map[netip.AddrPort]string, len(peers))
	for name, target := range peers {
		at := netip.AddrPortFrom(target.Peer, model.EchoPort)
		if p.peers[name] = previous[name]; p.peers[name] == nil || p.peers[name].target.Peer != target.Peer ||
			p.peers[name].target.Self != target.Self {
			p.peers[name] = &peer{contacted: previous[name] != nil && previous[name].contacted}
		}
		current := p.peers[name]
		if current.path.limit != target.MTU {
			current.path, current.large = path{limit: target.MTU}, request{}
		}
		if current.target != target {
			current.target, current.due = target, time.Time{}
		}
		p.names[at] = name
	}
}

// Result returns the result of probing a peer; the zero value if the peer is unknown.
func (p *Prober) Result(name string) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peers[name]
	if peer == nil {
		return Result{}
	}
	return Result{
		Connected: peer.reached, Known: peer.reached || peer.lost >= lossThreshold,
		Latency: median(peer.times), Loss: lossPercent(peer.outcomes),
		MTU: peer.path.limit, PathMTU: peer.path.mtu, PathMTUKnown: peer.path.known,
	}
}

// MarkReachable makes the prober probe a peer at the next interval. Call it when something other than a reply
// shows that the peer is reachable.
func (p *Prober) MarkReachable(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer := p.peers[name]; peer != nil {
		peer.contacted, peer.lastSeen, peer.due = true, time.Now(), time.Time{}
	}
}

// MarkAddressReachable calls MarkReachable for the peer whose gateway has an address.
func (p *Prober) MarkAddressReachable(from netip.Addr) {
	p.mu.Lock()
	name := p.names[netip.AddrPortFrom(from, model.EchoPort)]
	p.mu.Unlock()
	p.MarkReachable(name)
}

// Run probes each peer once per interval, less often if the peer does not reply, and measures path MTUs, until
// the context ends. It uses a socket per address family, closes both, and accepts nil for one of them. It fails if a
// socket cannot be configured.
func (p *Prober) Run(ctx context.Context, conn4, conn6 net.PacketConn, interval time.Duration) error {
	var reading sync.WaitGroup
	write := make(map[bool]func([]byte, net.IP, net.Addr)) // by isIPv6
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
			for _, message := range [][]byte{p.nextProbe(name), p.nextLargeProbe(name, time.Now())} {
				if message != nil && send != nil && p.hasEndpoint(name) {
					// A failed write counts as a loss.
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

// hasEndpoint reports whether WireGuard has an endpoint for a peer: a configured one, or the source of packets
// from the peer. Without an endpoint, each probe would cause a handshake that cannot be sent.
func (p *Prober) hasEndpoint(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peers[name]
	return peer != nil && (peer.target.Endpoint.IsValid() || peer.contacted)
}

// targets returns the peers that are to be probed now.
func (p *Prober) targets(now time.Time, interval time.Duration) map[string]Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	targets := make(map[string]Target, len(p.peers))
	for name, peer := range p.peers {
		if now.Before(peer.due) {
			continue
		}
		targets[name] = peer.target
		if peer.lastSeen.IsZero() {
			peer.lastSeen = now
		}
		if peer.lost >= lossThreshold {
			peer.due = now.Add(min(now.Sub(peer.lastSeen)/backoffDivisor, backoffIntervals*interval))
		}
	}
	return targets
}

// nextProbe returns the next probe of a peer. The previous one counts as lost if it has no reply.
func (p *Prober) nextProbe(name string) []byte {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil
	}
	p.mu.Lock()
	peer := p.peers[name]
	if peer == nil {
		p.mu.Unlock()
		return nil
	}
	lost := len(peer.pending) > 0
	if lost {
		if peer.lost++; peer.lost >= lossThreshold {
			peer.reached = false
			peer.times, peer.outcomes = nil, nil
		}
		peer.recordOutcome(true)
	}
	peer.rounds++
	peer.pending = append(
		peer.pending,
		request{nonce: binary.BigEndian.Uint64(nonce[:]), size: echoSize, at: time.Now(), round: peer.rounds},
	)
	if len(peer.pending) > outstanding {
		peer.pending = slices.Delete(peer.pending, 0, 1)
	}
	p.mu.Unlock()
	if lost {
		p.OnLoss(name)
	}
	return append(bytes.Clone(echoRequest), nonce[:]...)
}

// nextLargeProbe returns the next probe of a peer's path MTU; nil if none is due. Call it after nextProbe. The previous
// large probe counts as lost if it has no reply although the small probe sent together with it has one.
func (p *Prober) nextLargeProbe(name string, now time.Time) []byte {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peers[name]
	if peer == nil {
		return nil
	}
	switch {
	case !peer.reached:
		peer.path, peer.large = path{limit: peer.path.limit}, request{}
		return nil
	case peer.large.size > 0 && !peer.smallReplied:
		return nil
	case peer.large.size > 0:
		peer.path.missed(now)
	}
	peer.large, peer.smallReplied = request{}, false
	size := peer.path.next(now) - headers(peer.target.Peer)
	if size < echoSize {
		return nil
	}
	peer.large = request{nonce: binary.BigEndian.Uint64(nonce[:]), size: size, at: now, round: peer.rounds}
	message := make([]byte, size)
	copy(message[copy(message, echoRequest):], nonce[:])
	return message
}

// recordOutcome records whether a probe was lost. It ignores probes before the first reply.
func (p *peer) recordOutcome(lost bool) {
	if !p.reached {
		return
	}
	p.outcomes = append(p.outcomes, lost)
	if len(p.outcomes) > lossWindow {
		p.outcomes = slices.Delete(p.outcomes, 0, 1)
	}
}

// lossPercent returns the lost probes in percent of lossWindow.
func lossPercent(outcomes []bool) int {
	lost := 0
	for _, outcome := range outcomes {
		if outcome {
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
		if err != nil || !ok || n < echoSize || !bytes.HasPrefix(buffer[:n], echoReply) {
			continue
		}
		at := sender.AddrPort()
		p.handleReply(
			netip.AddrPortFrom(at.Addr().Unmap(), at.Port()),
			binary.BigEndian.Uint64(buffer[len(echoReply):echoSize]),
			n,
			time.Now(),
		)
	}
}

// handleReply processes a reply. It ignores a reply that matches no pending probe in source, nonce and size.
func (p *Prober) handleReply(from netip.AddrPort, nonce uint64, size int, now time.Time) {
	p.mu.Lock()
	name, ok := p.names[from]
	if !ok {
		p.mu.Unlock()
		return
	}
	peer := p.peers[name]
	if peer.large.nonce == nonce && peer.large.size == size {
		peer.large = request{}
		peer.path.answered(now)
		p.mu.Unlock()
		return
	}
	at := slices.IndexFunc(peer.pending, func(q request) bool { return q.nonce == nonce && q.size == size })
	if at < 0 {
		p.mu.Unlock()
		return
	}
	took := now.Sub(peer.pending[at].at)
	switch round := peer.pending[at].round; {
	case round == peer.large.round:
		peer.smallReplied = true
	case round > peer.large.round && !peer.smallReplied:
		// The small probe that was sent together with the large one was lost, too, so that the size is not the cause.
		peer.large = request{}
	}
	// Earlier probes that are still pending are lost.
	peer.pending = slices.Delete(peer.pending, 0, at+1)
	first := !peer.reached
	peer.lost, peer.reached, peer.lastSeen, peer.due = 0, true, now, time.Time{}
	if first {
		p.mu.Unlock()
		return // the latency includes the handshake
	}
	peer.recordOutcome(false)
	peer.times = append(peer.times, took)
	if len(peer.times) > window {
		peer.times = slices.Delete(peer.times, 0, 1)
	}
	p.mu.Unlock()
	p.OnReply(name, took)
}

// median returns the median of times; 0 if there are none.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(times), cmp.Compare)
	return sorted[len(sorted)/2]
}
