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

func TestABeaconAnswersWhoHasTheKeyAndNobodyElse(t *testing.T) {
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
		"with the key":                      {keys: []Key{newer}, want: true},
		"with the one before":               {keys: []Key{older}, want: true},
		"with one of several":               {keys: []Key{strange, older}, want: true},
		"a stranger":                        {keys: []Key{strange}},
		"without a key":                     {},
		"while the gateway is not at work":  {keys: []Key{newer}, dead: true},
		"with the key, after a wrong one":   {keys: []Key{newer}, want: true},
		"with the key, and nobody is there": {keys: []Key{newer}, dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			alive.Store(!test.dead)
			patience := 100 * time.Millisecond
			if test.want {
				patience = 10 * time.Second
			}
			err := Ask(t.Context(), at, test.keys, patience)
			if test.want != (err == nil) || errors.Is(err, ErrRefused) {
				t.Errorf("it was asked: %v", err)
			}
		})
	}
}

func TestWhoAsksWhereNobodyListensIsRefused(t *testing.T) {
	conn := listen(t, "udp4", "127.0.0.1:0")
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	conn.Close()
	key := KeyOf([]byte("secret"))
	for _, keys := range [][]Key{{key}, {key, KeyOf([]byte("the one before"))}} {
		if err := Ask(t.Context(), at, keys, 10*time.Second); !errors.Is(err, ErrRefused) {
			t.Errorf("with %d keys: %v", len(keys), err)
		}
	}
}

func TestWhatIsNoQuestionHasNoNonce(t *testing.T) {
	key := KeyOf([]byte("secret"))
	good := seal(key, beaconAsk, make([]byte, nonceSize))
	changed := bytes.Clone(good)
	changed[5] ^= 1
	for name, message := range map[string][]byte{
		"nothing": nil, "short": good[:len(good)-1], "long": append(bytes.Clone(good), 0),
		"changed": changed, "an answer": seal(key, beaconAnswer, make([]byte, nonceSize)),
	} {
		if nonce, _ := open([]Key{key}, beaconAsk, message); nonce != nil {
			t.Errorf("%s was taken for a question", name)
		}
	}
	if nonce, _ := open([]Key{key}, beaconAsk, good); nonce == nil {
		t.Error("a question was not understood")
	}
}

func FuzzMessagesOfStrangers(f *testing.F) {
	key := KeyOf([]byte("secret"))
	f.Add(seal(key, beaconAsk, make([]byte, nonceSize)))
	f.Add(append(bytes.Clone(echoAsk), 1, 2, 3, 4, 5, 6, 7, 8))
	from := netip.MustParseAddr("10.1.0.0")
	other := KeyOf([]byte("another"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if nonce, _ := open([]Key{other}, beaconAsk, message); nonce != nil {
			t.Fatal("a message without the key was understood")
		}
		var e Echo
		if e.answer(message, from) != nil {
			t.Fatal("a stranger was answered")
		}
		e.Allow([]netip.Addr{from})
		if answer := e.answer(message, from); len(answer) > len(message) {
			t.Fatalf("%d bytes were answered with %d", len(message), len(answer))
		}
	})
}

func TestOnlyPeersAreAnsweredAndNotMoreOftenThanTheyMayAsk(t *testing.T) {
	var e Echo
	peer, other := netip.MustParseAddr("10.1.0.0"), netip.MustParseAddr("fd11::")
	e.Allow([]netip.Addr{peer, other})
	ask := append(bytes.Clone(echoAsk), 1, 2, 3, 4, 5, 6, 7, 8)
	if e.answer(ask[:echoSize-1], peer) != nil {
		t.Error("what is too short was answered")
	}
	if e.answer(ask, netip.MustParseAddr("10.1.2.2")) != nil {
		t.Error("a pod of the peer was answered")
	}
	answers := 0
	for range 10 * answersAtOnce {
		if e.answer(ask, peer) != nil {
			answers++
		}
	}
	if answers < answersAtOnce || answers >= 5*answersAtOnce {
		t.Errorf("%d of %d questions at once were answered", answers, 10*answersAtOnce)
	}
	e.Allow([]netip.Addr{peer, other})
	answers = 0
	for range 3 {
		if e.answer(ask, peer) != nil {
			answers++
		}
	}
	if answers == 3 {
		t.Error("who is allowed again may ask as often again")
	}
	if e.answer(ask, other) == nil {
		t.Error("one peer keeps another one from being answered")
	}
	e.Allow(nil)
	if e.answer(ask, other) != nil {
		t.Error("who is no peer any more was answered")
	}
}

func TestAnAnswerComesFromTheAddressThatWasAsked(t *testing.T) {
	for family, addresses := range map[string][2]string{"udp4": {"127.0.0.1", "127.0.0.5"}, "udp6": {"::1", "::1"}} {
		t.Run(family, func(t *testing.T) {
			client, asked := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1])
			server := listen(t, family, ":0")
			var e Echo
			e.Allow([]netip.Addr{client})
			go func() { _ = e.Serve(t.Context(), server, family == "udp6") }()

			conn := listen(t, family, netip.AddrPortFrom(client, 0).String())
			to := netip.AddrPortFrom(asked, server.LocalAddr().(*net.UDPAddr).AddrPort().Port())
			question := append(bytes.Clone(echoAsk), 1, 2, 3, 4, 5, 6, 7, 8)
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
			if want := append(bytes.Clone(echoAnswer), question[4:]...); !bytes.Equal(answer[:n], want) || from != to {
				t.Errorf("%q from %s, asked was %s", answer[:n], from, to)
			}
		})
	}
}

// nonceOf is the number of a question.
func nonceOf(message []byte) uint64 { return binary.BigEndian.Uint64(message[len(echoAsk):]) }

func TestAPeerIsConnectedWhileItAnswers(t *testing.T) {
	answers, losses := 0, 0
	p := &Prober{Answered: func(string, time.Duration) { answers++ }, Lost: func(string) { losses++ }}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	from := netip.AddrPortFrom(target.Peer, model.EchoPort)
	p.Set(map[string]Target{"milan": target})
	if got := p.Result("milan"); got != (Result{}) {
		t.Errorf("before the first probe: %+v", got)
	}
	begin := time.Now()
	// The first answer says that there is somebody, and no more.
	p.answered(from, nonceOf(p.ask("milan")), echoSize, begin.Add(24*time.Hour))
	if got := p.Result("milan"); !got.Connected || got.Latency != 0 || answers != 0 {
		t.Errorf("after the first answer: %+v, %d answers were counted", got, answers)
	}
	for took := range 20 {
		p.answered(from, nonceOf(p.ask("milan")), echoSize, begin.Add(time.Hour+time.Duration(took)*time.Second))
	}
	first := p.Result("milan")
	if !first.Connected || first.Latency < time.Hour+11*time.Second || first.Latency > time.Hour+13*time.Second {
		t.Errorf("after 20 answers: %+v", first)
	}

	// Somebody else answers, or says what nobody has asked.
	question := nonceOf(p.ask("milan"))
	p.answered(netip.MustParseAddrPort("10.9.0.0:5874"), question, echoSize, begin)
	p.answered(from, question+1, echoSize, begin)
	if answers != 20 {
		t.Errorf("%d answers were counted", answers)
	}
	// An answer that is late is one, and only once.
	p.ask("milan")
	p.answered(from, question, echoSize, time.Now())
	p.answered(from, question, echoSize, time.Now())
	if answers != 21 || losses != 1 {
		t.Errorf("%d answers and %d losses were counted", answers, losses)
	}

	for range mayLose {
		if !p.Result("milan").Connected {
			t.Error("not connected any more, though not enough was lost")
		}
		p.ask("milan")
	}
	if got := p.Result("milan"); got.Connected || !got.Known {
		t.Errorf("after %d lost probes: %+v", mayLose, got)
	}
	p.answered(from, nonceOf(p.ask("milan")), echoSize, time.Now())
	p.Set(map[string]Target{"milan": target})
	if !p.Result("milan").Connected {
		t.Error("who stays was forgotten")
	}
	p.Set(nil)
	if p.Result("milan").Connected || p.ask("milan") != nil {
		t.Error("who is gone is still probed")
	}
}

func TestHowManyProbesAreLostIsOfTheLastOnes(t *testing.T) {
	p := &Prober{Answered: func(string, time.Duration) {}, Lost: func(string) {}}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	p.Set(map[string]Target{"milan": target})
	answered := func(times int) {
		for range times {
			p.answered(netip.AddrPortFrom(target.Peer, model.EchoPort), nonceOf(p.ask("milan")), echoSize, time.Now())
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		if got := p.Result("milan").Loss; got != want {
			t.Errorf("%s: %d %% are lost, not %d", when, got, want)
		}
	}
	for range 2 * mayLose {
		p.ask("milan")
	}
	expect("before the first answer", 0)
	answered(100)
	expect("where all are answered", 0)
	for range lossWindow / 4 {
		p.ask("milan")
		answered(3)
	}
	// The one that is lost counts when the next one is asked.
	expect("where each fourth is lost", 24)
	answered(lossWindow)
	expect("where none is any more", 0)
	for range mayLose + 1 {
		p.ask("milan")
	}
	expect("where nobody answers", 0)
	answered(1)
	expect("where somebody does again", 0)
}

// Where to send to is known of who has called, or whom we are to call.
func TestNobodyIsAskedWhoIsNowhere(t *testing.T) {
	p := &Prober{}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	set := func(t Target) { p.Set(map[string]Target{"milan": t}) }
	set(target)
	if p.leadsTo("milan") || p.leadsTo("naples") {
		t.Error("who was never heard of is asked")
	}
	called := target
	called.Endpoint = netip.MustParseAddrPort("172.16.2.1:51820")
	set(called)
	if !p.leadsTo("milan") {
		t.Error("who is to be called is not asked")
	}
	set(target)
	if p.leadsTo("milan") {
		t.Error("who is not called any more is asked")
	}
	p.Asked(target.Peer)
	if !p.leadsTo("milan") {
		t.Error("who has called is not asked")
	}
	target.Peer = netip.MustParseAddr("10.3.0.0")
	set(target)
	if !p.leadsTo("milan") {
		t.Error("who has called, and is known by another address now, is not asked")
	}
}

// Thousands of peers that are away would keep a gateway busy with questions.
func TestAPeerThatIsSilentIsAskedLessAndLessOften(t *testing.T) {
	const interval = 2 * time.Second
	p := &Prober{Answered: func(string, time.Duration) {}, Lost: func(string) {}}
	target := Target{Peer: netip.MustParseAddr("10.1.0.0"), Self: netip.MustParseAddr("10.2.0.0")}
	p.Set(map[string]Target{"milan": target})
	now := time.Now()
	// asked is how often it is, in so many intervals.
	asked := func(intervals int) (questions int) {
		for range intervals {
			for name := range p.targets(now, interval) {
				p.ask(name)
				questions++
			}
			now = now.Add(interval)
		}
		return questions
	}
	if n := asked(8); n != 8 {
		t.Errorf("in the first 16 seconds it was asked %d times", n)
	}
	if n := asked(22); n < 8 || n > 14 {
		t.Errorf("until a minute was over it was asked %d times", n)
	}
	asked(270)
	if n := asked(160); n != 10 {
		t.Errorf("after ten minutes it is asked %d times in 160 intervals", n)
	}
	// It is called elsewhere.
	target.Endpoint = netip.MustParseAddrPort("172.16.2.1:51820")
	for range 2 {
		p.Set(map[string]Target{"milan": target})
	}
	if n := asked(4); n != 1 {
		t.Errorf("it has another endpoint, and is asked %d times in four intervals", n)
	}
	// It is back, and asks us before we ask it.
	p.Asked(netip.MustParseAddr("10.9.0.0"))
	p.Asked(target.Peer)
	if n := asked(1); n != 1 {
		t.Error("it was heard of, and was not asked")
	}
	p.answered(netip.AddrPortFrom(target.Peer, model.EchoPort), nonceOf(p.ask("milan")), echoSize, now)
	if !p.Result("milan").Connected {
		t.Error("it answers, and is not connected")
	}
	if n := asked(4); n != 4 {
		t.Errorf("it has answered, and is asked %d times in four intervals", n)
	}
}
