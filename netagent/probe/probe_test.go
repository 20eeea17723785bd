// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"liqo.io/federation/netagent/model"
)

func listen(t *testing.T, network, address string) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UDPConn)
}

func TestBeaconRepliesToHoldersOfTheKeyOnly(t *testing.T) {
	older, newer, strange := KeyOf([]byte("older")), KeyOf([]byte("newer")), KeyOf([]byte("strange"))
	conn := listen(t, "udp4", "127.0.0.1:0")
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	var alive atomic.Bool
	alive.Store(true)
	go func() { _ = Beacon(t.Context(), conn, func() []Key { return []Key{newer, older} }, alive.Load) }()

	for name, test := range map[string]struct {
		keys []Key
		dead bool
		want bool
	}{
		"with the key":                               {keys: []Key{newer}, want: true},
		"with the previous key":                      {keys: []Key{older}, want: true},
		"with one of several keys":                   {keys: []Key{strange, older}, want: true},
		"with an unknown key":                        {keys: []Key{strange}},
		"without a key":                              {},
		"while the gateway is not healthy":           {keys: []Key{newer}, dead: true},
		"with the key, after a wrong one":            {keys: []Key{newer}, want: true},
		"with the key, and the gateway is not alive": {keys: []Key{newer}, dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			alive.Store(!test.dead)
			timeout := 100 * time.Millisecond
			if test.want {
				timeout = 10 * time.Second
			}
			err := Query(t.Context(), at, test.keys, timeout)
			if test.want != (err == nil) || errors.Is(err, ErrRefused) {
				t.Errorf("unexpected error: %v", err)
			}
		})
	}
}

func TestQueryWithoutABeaconIsRefused(t *testing.T) {
	conn := listen(t, "udp4", "127.0.0.1:0")
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	conn.Close()
	key := KeyOf([]byte("secret"))
	for _, keys := range [][]Key{{key}, {key, KeyOf([]byte("previous"))}} {
		if err := Query(t.Context(), at, keys, 10*time.Second); !errors.Is(err, ErrRefused) {
			t.Errorf("with %d keys: %v", len(keys), err)
		}
	}
}

func TestMalformedMessagesAreRejected(t *testing.T) {
	key := KeyOf([]byte("secret"))
	good := seal(key, beaconRequest, make([]byte, nonceSize))
	changed := bytes.Clone(good)
	changed[5] ^= 1
	for name, message := range map[string][]byte{
		"nothing": nil, "short": good[:len(good)-1], "long": append(bytes.Clone(good), 0),
		"changed": changed, "a reply": seal(key, beaconReply, make([]byte, nonceSize)),
	} {
		if nonce, _ := open([]Key{key}, beaconRequest, message); nonce != nil {
			t.Errorf("%s is accepted as a request", name)
		}
	}
	if nonce, _ := open([]Key{key}, beaconRequest, good); nonce == nil {
		t.Error("a valid request is not accepted")
	}
}

func FuzzMessagesOfStrangers(f *testing.F) {
	key := KeyOf([]byte("secret"))
	f.Add(seal(key, beaconRequest, make([]byte, nonceSize)))
	f.Add(append(bytes.Clone(echoRequest), 1, 2, 3, 4, 5, 6, 7, 8))
	from := netip.MustParseAddr("10.1.0.0")
	other := KeyOf([]byte("another"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if nonce, _ := open([]Key{other}, beaconRequest, message); nonce != nil {
			t.Fatal("a message sealed with another key is accepted")
		}
		var e Echo
		if e.reply(message, from) != nil {
			t.Fatal("a reply to a request with an unknown key")
		}
		e.Allow([]netip.Addr{from})
		if answer := e.reply(message, from); len(answer) > len(message) {
			t.Fatalf("the reply to %d bytes has %d bytes", len(message), len(answer))
		}
	})
}

func TestEchoRepliesToPeersWithinTheirRateLimit(t *testing.T) {
	var e Echo
	peer, other := netip.MustParseAddr("10.1.0.0"), netip.MustParseAddr("fd11::")
	e.Allow([]netip.Addr{peer, other})
	message := append(bytes.Clone(echoRequest), 1, 2, 3, 4, 5, 6, 7, 8)
	if e.reply(message[:echoSize-1], peer) != nil {
		t.Error("a reply to a message that is too short")
	}
	if e.reply(message, netip.MustParseAddr("10.1.2.2")) != nil {
		t.Error("a reply to a pod of the peer")
	}
	answers := 0
	for range 10 * replyBurst {
		if e.reply(message, peer) != nil {
			answers++
		}
	}
	if answers < replyBurst || answers >= 5*replyBurst {
		t.Errorf("%d replies to %d probes at once", answers, 10*replyBurst)
	}
	e.Allow([]netip.Addr{peer, other})
	answers = 0
	for range 3 {
		if e.reply(message, peer) != nil {
			answers++
		}
	}
	if answers == 3 {
		t.Error("the limit of a peer that is allowed again was not reset")
	}
	if e.reply(message, other) == nil {
		t.Error("no reply to a peer while another one exceeds its limit")
	}
	e.Allow(nil)
	if e.reply(message, other) != nil {
		t.Error("a reply to a peer that is no longer allowed")
	}
}

func TestReplyIsSentFromTheProbedAddress(t *testing.T) {
	for family, addresses := range map[string][2]string{"udp4": {"127.0.0.1", "127.0.0.5"}, "udp6": {"::1", "::1"}} {
		t.Run(family, func(t *testing.T) {
			client, probed := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1])
			server := listen(t, family, ":0")
			var e Echo
			e.Allow([]netip.Addr{client})
			go func() { _ = e.Serve(t.Context(), server, family == "udp6") }()

			conn := listen(t, family, netip.AddrPortFrom(client, 0).String())
			to := netip.AddrPortFrom(probed, server.LocalAddr().(*net.UDPAddr).AddrPort().Port())
			question := append(bytes.Clone(echoRequest), 1, 2, 3, 4, 5, 6, 7, 8)
			question = append(question, make([]byte, 1400)...)
			if _, err := conn.WriteToUDPAddrPort(question, to); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 2048)
			n, from, err := conn.ReadFromUDPAddrPort(answer)
			if err != nil {
				t.Fatal(err)
			}
			if want := append(bytes.Clone(echoReply), question[4:]...); !bytes.Equal(answer[:n], want) || from != to {
				t.Errorf("%q from %s, probed %s", answer[:n], from, to)
			}
		})
	}
}

// nonceOf returns the nonce of a request.
func nonceOf(message []byte) uint64 { return binary.BigEndian.Uint64(message[len(echoRequest):]) }

func TestPeerIsConnectedWhileItReplies(t *testing.T) {
	answers, losses := 0, 0
	p := &Prober{OnReply: func(string, time.Duration) { answers++ }, OnLoss: func(string) { losses++ }}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	from := netip.AddrPortFrom(target.Peer, model.EchoPort)
	p.Set(map[string]Target{"milan": target})
	if got := p.Result("milan"); got != (Result{}) {
		t.Errorf("before the first probe: %+v", got)
	}
	begin := time.Now()
	// The first reply, whose time includes the handshake, yields no latency.
	p.handleReply(from, nonceOf(p.nextProbe("milan")), echoSize, begin.Add(24*time.Hour))
	if got := p.Result("milan"); !got.Connected || got.Latency != 0 || answers != 0 {
		t.Errorf("after the first reply: %+v, %d replies were counted", got, answers)
	}
	for took := range 20 {
		p.handleReply(from, nonceOf(p.nextProbe("milan")), echoSize, begin.Add(time.Hour+time.Duration(took)*time.Second))
	}
	first := p.Result("milan")
	if !first.Connected || first.Latency < time.Hour+11*time.Second || first.Latency > time.Hour+13*time.Second {
		t.Errorf("after 20 replies: %+v", first)
	}

	// Replies from another source, and without a request, are ignored.
	question := nonceOf(p.nextProbe("milan"))
	p.handleReply(netip.MustParseAddrPort("10.9.0.0:5874"), question, echoSize, begin)
	p.handleReply(from, question+1, echoSize, begin)
	if answers != 20 {
		t.Errorf("%d replies were counted", answers)
	}
	// A late reply counts once.
	p.nextProbe("milan")
	p.handleReply(from, question, echoSize, time.Now())
	p.handleReply(from, question, echoSize, time.Now())
	if answers != 21 || losses != 1 {
		t.Errorf("%d replies and %d losses were counted", answers, losses)
	}

	for range lossThreshold {
		if !p.Result("milan").Connected {
			t.Error("not connected before lossThreshold probes were lost")
		}
		p.nextProbe("milan")
	}
	if got := p.Result("milan"); got.Connected || !got.Known {
		t.Errorf("after %d lost probes: %+v", lossThreshold, got)
	}
	p.handleReply(from, nonceOf(p.nextProbe("milan")), echoSize, time.Now())
	p.Set(map[string]Target{"milan": target})
	if !p.Result("milan").Connected {
		t.Error("the result of a remaining peer was deleted")
	}
	p.Set(nil)
	if p.Result("milan").Connected || p.nextProbe("milan") != nil {
		t.Error("a deleted peer is probed")
	}
}

func TestLossCountsTheLatestProbes(t *testing.T) {
	p := &Prober{OnReply: func(string, time.Duration) {}, OnLoss: func(string) {}}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	p.Set(map[string]Target{"milan": target})
	answered := func(times int) {
		for range times {
			p.handleReply(netip.AddrPortFrom(target.Peer, model.EchoPort), nonceOf(p.nextProbe("milan")), echoSize, time.Now())
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		if got := p.Result("milan").Loss; got != want {
			t.Errorf("%s: loss of %d %%, want %d", when, got, want)
		}
	}
	for range 2 * lossThreshold {
		p.nextProbe("milan")
	}
	expect("before the first reply", 0)
	answered(100)
	expect("with replies to all probes", 0)
	for range lossWindow / 4 {
		p.nextProbe("milan")
		answered(3)
	}
	// A lost probe counts when the next one is sent.
	expect("with every fourth probe lost", 24)
	answered(lossWindow)
	expect("with replies to all probes again", 0)
	for range lossThreshold + 1 {
		p.nextProbe("milan")
	}
	expect("without replies", 0)
	answered(1)
	expect("with replies again", 0)
}

// WireGuard has an endpoint for a peer if one is configured, or once the peer has sent packets.
func TestPeerWithoutAnEndpointIsNotProbed(t *testing.T) {
	p := &Prober{}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	set := func(t Target) { p.Set(map[string]Target{"milan": t}) }
	set(target)
	if p.hasEndpoint("milan") || p.hasEndpoint("naples") {
		t.Error("a peer without an endpoint is probed")
	}
	called := target
	called.Endpoint = netip.MustParseAddrPort("172.16.2.1:51820")
	set(called)
	if !p.hasEndpoint("milan") {
		t.Error("a peer with an endpoint is not probed")
	}
	set(target)
	if p.hasEndpoint("milan") {
		t.Error("a peer that lost its endpoint is probed")
	}
	p.MarkAddressReachable(target.Peer)
	if !p.hasEndpoint("milan") {
		t.Error("a peer that sent packets is not probed")
	}
	target.Peer = netip.MustParseAddr("10.3.0.0")
	set(target)
	if !p.hasEndpoint("milan") {
		t.Error("a peer that sent packets is not probed after its address changed")
	}
}

// Probing thousands of unreachable peers at each interval would keep a gateway busy.
func TestUnresponsivePeerIsProbedWithBackoff(t *testing.T) {
	const interval = 2 * time.Second
	p := &Prober{OnReply: func(string, time.Duration) {}, OnLoss: func(string) {}}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	p.Set(map[string]Target{"milan": target})
	now := time.Now()
	// probes returns the number of probes sent in the given number of intervals.
	probes := func(intervals int) (count int) {
		for range intervals {
			for name := range p.targets(now, interval) {
				p.nextProbe(name)
				count++
			}
			now = now.Add(interval)
		}
		return count
	}
	if n := probes(8); n != 8 {
		t.Errorf("%d probes in the first 16 seconds", n)
	}
	if n := probes(22); n < 8 || n > 14 {
		t.Errorf("%d probes in the rest of the first minute", n)
	}
	probes(270)
	if n := probes(160); n != 10 {
		t.Errorf("after ten minutes, %d probes in 160 intervals", n)
	}
	// The endpoint of the peer changes.
	target.Endpoint = netip.MustParseAddrPort("172.16.2.1:51820")
	for range 2 {
		p.Set(map[string]Target{"milan": target})
	}
	if n := probes(4); n != 1 {
		t.Errorf("with another endpoint, %d probes in four intervals", n)
	}
	// The peer is reachable again, and sends a probe first.
	p.MarkAddressReachable(netip.MustParseAddr("10.9.0.0"))
	p.MarkAddressReachable(target.Peer)
	if n := probes(1); n != 1 {
		t.Error("not probed after MarkReachable")
	}
	p.handleReply(netip.AddrPortFrom(target.Peer, model.EchoPort), nonceOf(p.nextProbe("milan")), echoSize, now)
	if !p.Result("milan").Connected {
		t.Error("not connected after a reply")
	}
	if n := probes(4); n != 4 {
		t.Errorf("after a reply, %d probes in four intervals", n)
	}
}
