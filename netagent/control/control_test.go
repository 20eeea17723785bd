// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"
)

// patience bounds what a test waits for.
const patience = 10 * time.Second

var loopback = netip.MustParseAddr("127.0.0.1")

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// listen listens on a free port of this machine.
func listen(t fataler) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dialer(l net.Listener) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

// served is a forwarder at work, to a server that says what it has read, and
// then all of that again.
func served(t *testing.T) (f *Forwarder, at string) {
	t.Helper()
	server, listener := listen(t), listen(t)
	go echo(server)
	f = NewForwarder(dialer(server))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return f, listener.Addr().String()
}

func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var said bytes.Buffer
			if _, err := io.Copy(conn, io.TeeReader(conn, &said)); err == nil {
				_, _ = conn.Write(said.Bytes())
			}
		}()
	}
}

type closeWriter interface {
	net.Conn
	CloseWrite() error
}

// exchange says all of a text in pieces, ends, and reads until the other side
// ends as well.
func exchange(conn closeWriter, text []byte, piece int) ([]byte, error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		for len(text) > 0 {
			n := min(piece, len(text))
			if _, err := conn.Write(text[:n]); err != nil {
				failed <- err
				return
			}
			text = text[n:]
		}
		failed <- conn.CloseWrite()
	}()
	heard, err := io.ReadAll(conn)
	return heard, errors.Join(err, <-failed)
}

// unpaced lets peers make connections as fast as a test does, however many
// examples it tries.
func unpaced(l *lines) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.known {
		of.pace.SetLimit(rate.Inf)
	}
}

func TestAForwarderLosesNoBytes(t *testing.T) {
	f, at := served(t)
	f.Allow([]netip.Addr{loopback})
	unpaced(&f.lines)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 1<<16).Draw(t, "text")
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		heard, err := exchange(conn.(*net.TCPConn), text, rapid.IntRange(1, 1<<15).Draw(t, "piece"))
		if want := append(bytes.Clone(text), text...); err != nil || !bytes.Equal(heard, want) {
			t.Fatalf("%v: %d bytes of %d", err, len(heard), len(want))
		}
	})
}

// ends tells whether a connection was ended by the other side.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection goes on: %d, %v", n, err)
	}
}

func say(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	heard := make([]byte, len(word))
	if _, err := conn.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != word {
		t.Fatalf("%q: %v", heard, err)
	}
}

func call(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAForwarderServesThoseItIsToldOfAndAsLongAsItIs(t *testing.T) {
	f, at := served(t)
	ends(t, call(t, at))
	f.Allow([]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	ends(t, call(t, at))

	f.Allow([]netip.Addr{loopback})
	conn := call(t, at)
	say(t, conn, "word")
	f.Allow([]netip.Addr{netip.MustParseAddr("192.0.2.1"), loopback})
	say(t, conn, "still")
	f.Allow(nil)
	ends(t, conn)
}

func TestAForwarderCarriesSoManyConnectionsAtATime(t *testing.T) {
	f, at := served(t)
	f.lines.ofPeer = 2
	f.Allow([]netip.Addr{loopback})
	first, second := call(t, at), call(t, at)
	say(t, first, "one")
	say(t, second, "two")
	ends(t, call(t, at))
	first.Close()
	for deadline := time.Now().Add(patience); ; {
		third := call(t, at)
		if _, err := third.Write([]byte("x")); err == nil {
			if err := third.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := third.Read(make([]byte, 1)); err == nil {
				return // there is room again
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("there is no room for another one")
		}
	}
}

func TestAForwarderEndsWhatItCannotBring(t *testing.T) {
	listener := listen(t)
	f := NewForwarder(func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") })
	f.Allow([]netip.Addr{loopback})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, listener) }()
	ends(t, call(t, listener.Addr().String()))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// proxied is a proxy at work before a server, and the certificate that it
// shows.
type proxied struct {
	*Proxy
	at    string
	roots *x509.CertPool
	asked netip.AddrPort
}

const milan = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"

func newProxied(t *testing.T) *proxied {
	t.Helper()
	some := httptest.NewUnstartedServer(nil)
	some.StartTLS()
	t.Cleanup(some.Close)
	server, listener := listen(t), listen(t)
	go echo(server)
	p := &proxied{at: listener.Addr().String(), roots: x509.NewCertPool()}
	p.roots.AddCert(some.Certificate())
	p.Proxy = NewProxy(func(_ context.Context, _, token string) (int, error) {
		return map[string]int{"good": http.StatusOK, "unknown": http.StatusUnauthorized}[token] | map[string]int{"poor": http.StatusForbidden}[token], nil
	}, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		p.asked = to
		return dialer(server)(ctx)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- p.Serve(ctx, listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &some.TLS.Certificates[0], nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return p
}

// ask asks for a host, saying something at once behind it.
func (p *proxied) ask(method, host, token, early string) (*tls.Conn, *bufio.Reader, *http.Response, error) {
	conn, err := tls.Dial("tcp", p.at, &tls.Config{RootCAs: p.roots, ServerName: "example.com"})
	if err != nil {
		return nil, nil, nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, nil, err
	}
	authorization := ""
	if token != "" {
		authorization = "Proxy-Authorization: Bearer " + token + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: proxy\r\n%s\r\n%s", method, host, authorization, early); err != nil {
		return nil, nil, nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: method})
	return conn, reader, response, err
}

func TestAProxyLeadsWhereItIsToldAndNowhereElse(t *testing.T) {
	p := newProxied(t)
	at := netip.MustParseAddr("fd6c:6971:6f00::1")
	p.Lead(map[string]netip.Addr{milan: at})
	for name, test := range map[string]struct {
		method, host, token string
		status              int
	}{
		"a cluster that lends":    {"CONNECT", milan + ".control.liqo:443", "good", 200},
		"another port of it":      {"CONNECT", milan + ".control.liqo:22", "good", 404},
		"a cluster nobody knows":  {"CONNECT", "naples.control.liqo:443", "good", 404},
		"this cluster's own API":  {"CONNECT", "kubernetes.default.svc:443", "good", 404},
		"an address":              {"CONNECT", "[fd6c:6971:6f00::1]:5877", "good", 404},
		"nobody":                  {"CONNECT", milan + ".control.liqo:443", "", 407},
		"a token that is none":    {"CONNECT", milan + ".control.liqo:443", "unknown", 407},
		"somebody who may not":    {"CONNECT", milan + ".control.liqo:443", "poor", 403},
		"what is asked otherwise": {"GET", "http://" + milan + ".control.liqo/", "good", 405},
	} {
		t.Run(name, func(t *testing.T) {
			p.asked = netip.AddrPort{}
			conn, _, response, err := p.ask(test.method, test.host, test.token, "")
			if err != nil || response.StatusCode != test.status {
				t.Fatalf("%v, %+v", err, response)
			}
			conn.Close()
			if want := test.status == http.StatusOK; (p.asked == netip.AddrPortFrom(at, 5877)) != want || p.asked.IsValid() != want {
				t.Errorf("it called %s", p.asked)
			}
			if asks := response.Header.Get("Proxy-Authenticate"); (asks == "Bearer") != (test.status == http.StatusProxyAuthRequired) {
				t.Errorf("Proxy-Authenticate is %q", asks)
			}
		})
	}
}

func TestAProxyLosesNoBytes(t *testing.T) {
	p := newProxied(t)
	p.Lead(map[string]netip.Addr{milan: loopback})
	unpaced(&p.lines)
	rapid.Check(t, func(t *rapid.T) {
		early := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "said before the answer")
		text := rapid.SliceOfN(rapid.Byte(), 0, 1<<16).Draw(t, "said after it")
		conn, reader, response, err := p.ask("CONNECT", milan+".control.liqo:443", "good", string(early))
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %+v", err, response)
		}
		heard, err := exchange(&tunnelled{conn, reader}, text, rapid.IntRange(1, 1<<15).Draw(t, "piece"))
		said := append(bytes.Clone(early), text...)
		if want := append(bytes.Clone(said), said...); err != nil || !bytes.Equal(heard, want) {
			t.Fatalf("%v: %d bytes of %d", err, len(heard), len(want))
		}
	})
}

// tunnelled is a connection of which more may have been read than the answer.
type tunnelled struct {
	*tls.Conn
	reader io.Reader
}

func (c *tunnelled) Read(p []byte) (int, error) { return c.reader.Read(p) }

func TestConnectionsToAClusterEndWithTheWayThere(t *testing.T) {
	p := newProxied(t)
	p.Lead(map[string]netip.Addr{milan: loopback})
	conn, _, response, err := p.ask("CONNECT", milan+".control.liqo:443", "good", "")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %+v", err, response)
	}
	defer conn.Close()
	p.Lead(nil)
	ends(t, conn)
}

func TestNobodyTakesThePlaceOfAllOthersAtAProxy(t *testing.T) {
	p := newProxied(t)
	p.Lead(map[string]netip.Addr{milan: loopback})
	var all []net.Conn
	for range maxOfSource {
		all = append(all, call(t, p.at))
	}
	ends(t, call(t, p.at))
	for _, conn := range all {
		conn.Close()
	}
	// That they are gone is noticed in a moment.
	for deadline := time.Now().Add(patience); ; {
		conn, _, response, err := p.ask("CONNECT", milan+".control.liqo:443", "good", "")
		if err == nil && response.StatusCode == http.StatusOK {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no place again: %v", err)
		}
	}
}

func TestAnAnswerEndsTheConnection(t *testing.T) {
	p := newProxied(t)
	conn, reader, response, err := p.ask("GET", "/", "", "")
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed || !response.Close {
		t.Fatalf("%v, %+v", err, response)
	}
	defer conn.Close()
	if _, err := io.Copy(io.Discard, reader); err != nil {
		t.Error(err)
	}
}
