// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"liqo.io/federation/netagent/model"
)

func TestPathMTUIsFound(t *testing.T) {
	for name, test := range map[string]struct{ agreed, passes, want, tries int }{
		"all pass":                             {agreed: 1420, passes: 9000, want: 1420, tries: 1},
		"a smaller size passes":                {agreed: 1420, passes: 1376, want: 1376},
		"one byte less passes":                 {agreed: 1420, passes: 1419, want: 1419},
		"only the minimum passes":              {agreed: 1420, passes: 1280, want: 1280},
		"the minimum does not pass":            {agreed: 1420, passes: 1279, want: 0, tries: 2 * lossThreshold},
		"the agreed size is the minimum":       {agreed: 1280, passes: 1280, want: 1280, tries: 1},
		"the agreed minimum does not pass":     {agreed: 1280, passes: 1279, want: 0, tries: lossThreshold},
		"the agreed size is one byte more":     {agreed: 1281, passes: 1280, want: 1280, tries: lossThreshold + 1},
		"the agreed size is below the minimum": {agreed: 1200, passes: 1100, want: 0, tries: lossThreshold},
		"jumbo frames":                         {agreed: 65535, passes: 8920, want: 8920},
	} {
		t.Run(name, func(t *testing.T) {
			p := path{limit: test.agreed}
			tries := search(t, &p, time.Unix(0, 0), func(size int) bool { return size <= test.passes })
			if !p.known || p.mtu != test.want {
				t.Errorf("path MTU %d, known: %t", p.mtu, p.known)
			}
			if test.tries != 0 && tries != test.tries {
				t.Errorf("%d packets", tries)
			}
		})
	}
}

// search probes until the path MTU is found, and returns the number of packets.
func search(t interface{ Fatalf(string, ...any) }, p *path, now time.Time, pass func(int) bool) (tries int) {
	for size := p.next(now); size != 0; size = p.next(now) {
		if tries++; tries > 64 {
			t.Fatalf("the search does not end: %+v", *p)
		}
		if pass(size) {
			p.answered(now)
		} else {
			p.missed(now)
		}
	}
	return tries
}

func TestAnyPathMTUIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agreed := rapid.IntRange(1200, 65535).Draw(t, "agreed")
		passes := rapid.IntRange(0, 65535).Draw(t, "passes")
		p := path{limit: agreed}
		search(t, &p, time.Unix(0, 0), func(size int) bool { return size <= passes })
		want := min(passes, agreed)
		if want < minPath && want != agreed {
			want = 0
		}
		if !p.known || p.mtu != want {
			t.Fatalf("path MTU %d, want %d", p.mtu, want)
		}
	})
}

func TestPathMTUIsProbedEachMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	p := path{limit: 1420}
	search(t, &p, now, func(size int) bool { return size <= 1400 })
	if p.next(now.Add(pathInterval-time.Second)) != 0 {
		t.Error("a size is probed before pathInterval")
	}
	now = now.Add(pathInterval)
	if got := p.next(now); got != 1420 || !p.known || p.mtu != 1400 {
		t.Errorf("size %d is probed, state %+v", got, p)
	}
	search(t, &p, now, func(int) bool { return true })
	if p.mtu != 1420 {
		t.Errorf("path MTU %d", p.mtu)
	}
	// The loss of fewer than lossThreshold packets does not matter.
	now, lost := now.Add(pathInterval), 0
	search(t, &p, now, func(int) bool { lost++; return lost == lossThreshold })
	if p.mtu != 1420 {
		t.Errorf("after %d lost packets, path MTU %d", lossThreshold-1, p.mtu)
	}
}

// large returns a prober with a peer that replies to small probes, the peer's address, and a function that sends
// the next probes and returns the large one.
func large(mtu int) (p *Prober, from netip.AddrPort, tick func(now time.Time, answered bool) []byte) {
	p = &Prober{OnReply: func(string, time.Duration) {}, OnLoss: func(string) {}}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0"), MTU: mtu}
	from = netip.AddrPortFrom(target.Peer, model.EchoPort)
	p.Set(map[string]Target{"milan": target})
	tick = func(now time.Time, answered bool) []byte {
		small := p.nextProbe("milan")
		question := p.nextLargeProbe("milan", now)
		if answered {
			p.handleReply(from, nonceOf(small), len(small), now)
		}
		return question
	}
	return p, from, tick
}

func TestLargeProbesHaveTheAgreedSize(t *testing.T) {
	now := time.Unix(1000, 0)
	p, from, tick := large(1420)
	if tick(now, false) != nil || tick(now, true) != nil {
		t.Error("a large probe is sent before the first reply")
	}
	question := tick(now, true)
	if len(question) != 1420-28 {
		t.Fatalf("the large probe has %d bytes", len(question))
	}
	if p.Result("milan").PathMTUKnown {
		t.Error("known before the first reply")
	}
	// Replies of another size or from another source are ignored.
	p.handleReply(from, nonceOf(question), echoSize, now)
	p.handleReply(netip.MustParseAddrPort("10.9.0.0:5874"), nonceOf(question), len(question), now)
	if p.Result("milan").PathMTUKnown {
		t.Error("an invalid reply counts")
	}
	p.handleReply(from, nonceOf(question), len(question), now)
	if got := p.Result("milan"); !got.PathMTUKnown || got.MTU != 1420 || got.PathMTU != 1420 || !got.Connected {
		t.Errorf("%+v", got)
	}
	if tick(now.Add(pathInterval-1), true) != nil || tick(now.Add(pathInterval), true) == nil {
		t.Error("no large probe after a minute")
	}
}

func TestLostLargeProbesDoNotCountAsLoss(t *testing.T) {
	now := time.Unix(1000, 0)
	p, from, tick := large(1420)
	tick(now, true)
	for range 100 {
		question := tick(now, true)
		if size := len(question) + 28; question != nil && size <= 1376 {
			p.handleReply(from, nonceOf(question), len(question), now)
		}
	}
	if got := p.Result("milan"); !got.Connected || !got.PathMTUKnown || got.MTU != 1420 || got.PathMTU != 1376 {
		t.Errorf("%+v", got)
	}
	// The clusters agree upon another MTU.
	p.Set(map[string]Target{"milan": {Peer: from.Addr(), Self: netip.MustParseAddr("10.2.0.0"), MTU: 1376}})
	if got := p.Result("milan"); got.PathMTUKnown || !got.Connected {
		t.Errorf("result after another MTU was agreed upon: %+v", got)
	}
	if got := len(tick(now, true)); got != 1376-28 {
		t.Errorf("the large probe has %d bytes", got)
	}
}

func TestLossOfBothProbesDoesNotReducePathMTU(t *testing.T) {
	now := time.Unix(1000, 0)
	p, from, tick := large(1420)
	tick(now, true)
	for range 2 * lossThreshold {
		if question := tick(now, false); len(question) != 1420-28 {
			t.Fatalf("the large probe has %d bytes", len(question))
		}
		if tick(now, true) != nil {
			t.Fatal("a large probe is sent while another one is pending")
		}
	}
	if got := p.Result("milan"); got.PathMTUKnown || !got.Connected {
		t.Errorf("%+v", got)
	}
	for range lossThreshold {
		tick(now, false)
	}
	if tick(now, false) != nil {
		t.Error("a large probe is sent to a peer that does not reply to small ones")
	}
	tick(now, true)
	question := tick(now, true)
	p.handleReply(from, nonceOf(question), len(question), now)
	if got := p.Result("milan"); got.PathMTU != 1420 {
		t.Errorf("result after replies resumed: %+v", got)
	}
}

// A large probe whose reply takes longer than the interval is not lost.
func TestLargeProbeTimesOutWithTheSmallOne(t *testing.T) {
	for name, test := range map[string]struct {
		passes int
		want   int
	}{"it passes": {1420, 1420}, "it does not": {1376, 1376}} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			p, from, tick := large(1420)
			tick(now, true)
			var small, question []byte
			for range 200 {
				before, sent := small, question
				small, question = p.nextProbe("milan"), p.nextLargeProbe("milan", now)
				if before != nil {
					p.handleReply(from, nonceOf(before), len(before), now)
				}
				if size := len(sent) + 28; sent != nil && size <= test.passes {
					p.handleReply(from, nonceOf(sent), len(sent), now)
				}
			}
			if got := p.Result("milan"); !got.PathMTUKnown || got.PathMTU != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestIPv6PacketsHaveLargerHeaders(t *testing.T) {
	if got := headers(netip.MustParseAddr("fd11::")); got != 48 {
		t.Errorf("%d", got)
	}
}
