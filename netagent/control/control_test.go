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

// testTimeout bounds every wait of a test.
const testTimeout = 10 * time.Second

var loopback = netip.MustParseAddr("127.0.0.1")

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// listen listens on a free loopback port.
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

// newForwarderTest returns a running forwarder and its address. It forwards to a server that echoes everything it
// received once the client closes its write side.
func newForwarderTest(t *testing.T) (f *Forwarder, at string) {
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
			var sent bytes.Buffer
			if _, err := io.Copy(conn, io.TeeReader(conn, &sent)); err == nil {
				_, _ = conn.Write(sent.Bytes())
			}
		}()
	}
}

type closeWriter interface {
	net.Conn
	CloseWrite() error
}

// exchange writes a text in pieces, closes the write side, and returns what it reads until the other side closes
// its own.
func exchange(conn closeWriter, text []byte, piece int) ([]byte, error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
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
	received, err := io.ReadAll(conn)
	return received, errors.Join(err, <-failed)
}

// withoutRateLimit disables the rate limit of new connections, for property tests.
func withoutRateLimit(l *connections) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.peers {
		of.limiter.SetLimit(rate.Inf)
	}
}

func TestForwarderLosesNoBytes(t *testing.T) {
	f, at := newForwarderTest(t)
	f.Allow([]netip.Addr{loopback})
	withoutRateLimit(&f.connections)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 1<<16).Draw(t, "text")
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		received, err := exchange(conn.(*net.TCPConn), text, rapid.IntRange(1, 1<<15).Draw(t, "piece"))
		if want := append(bytes.Clone(text), text...); err != nil || !bytes.Equal(received, want) {
			t.Fatalf("%v: %d bytes of %d", err, len(received), len(want))
		}
	})
}

// ends requires that the other side closes a connection.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection is still open: %d, %v", n, err)
	}
}

func echoes(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	received := make([]byte, len(word))
	if _, err := conn.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, received); err != nil || string(received) != word {
		t.Fatalf("%q: %v", received, err)
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

func TestForwarderServesAllowedPeersOnly(t *testing.T) {
	f, at := newForwarderTest(t)
	ends(t, call(t, at))
	f.Allow([]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	ends(t, call(t, at))

	f.Allow([]netip.Addr{loopback})
	conn := call(t, at)
	echoes(t, conn, "word")
	f.Allow([]netip.Addr{netip.MustParseAddr("192.0.2.1"), loopback})
	echoes(t, conn, "still")
	f.Allow(nil)
	ends(t, conn)
}

func TestForwarderLimitsConnections(t *testing.T) {
	f, at := newForwarderTest(t)
	f.connections.maxPerPeer = 2
	f.Allow([]netip.Addr{loopback})
	first, second := call(t, at), call(t, at)
	echoes(t, first, "one")
	echoes(t, second, "two")
	ends(t, call(t, at))
	first.Close()
	for deadline := time.Now().Add(testTimeout); ; {
		third := call(t, at)
		if _, err := third.Write([]byte("x")); err == nil {
			if err := third.SetDeadline(time.Now().Add(testTimeout)); err != nil {
				t.Fatal(err)
			}
			if _, err := third.Read(make([]byte, 1)); err == nil {
				return // a connection was freed
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the limit still applies")
		}
	}
}

func TestForwarderClosesConnectionsThatItCannotForward(t *testing.T) {
	listener := listen(t)
	f := NewForwarder(func(context.Context) (net.Conn, error) { return nil, errors.New("unreachable") })
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

// proxyTest is a running proxy, with a server that it connects clients to, and the certificate of the proxy.
type proxyTest struct {
	*Proxy
	at     string
	roots  *x509.CertPool
	dialed netip.AddrPort
}

const milan = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"

func newProxied(t *testing.T) *proxyTest {
	t.Helper()
	some := httptest.NewUnstartedServer(nil)
	some.StartTLS()
	t.Cleanup(some.Close)
	server, listener := listen(t), listen(t)
	go echo(server)
	p := &proxyTest{at: listener.Addr().String(), roots: x509.NewCertPool()}
	p.roots.AddCert(some.Certificate())
	p.Proxy = NewProxy(func(_ context.Context, _, token string) (int, error) {
		return map[string]int{
			"good": http.StatusOK, "unknown": http.StatusUnauthorized,
		}[token] | map[string]int{"poor": http.StatusForbidden}[token], nil
	}, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		p.dialed = to
		return dialer(server)(ctx)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- p.Serve(
			ctx, listener, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &some.TLS.Certificates[0], nil },
		)
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

// request sends a request for a host. It sends early right after the headers, before the response.
func (p *proxyTest) request(method, host, token, early string) (*tls.Conn, *bufio.Reader, *http.Response, error) {
	conn, err := tls.Dial("tcp", p.at, &tls.Config{RootCAs: p.roots, ServerName: "example.com"})
	if err != nil {
		return nil, nil, nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		return nil, nil, nil, err
	}
	authorization := ""
	if token != "" {
		authorization = "Proxy-Authorization: Bearer " + token + "\r\n"
	}
	if _, err := fmt.Fprintf(
		conn, "%s %s HTTP/1.1\r\nHost: proxy\r\n%s\r\n%s", method, host, authorization, early,
	); err != nil {
		return nil, nil, nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: method})
	return conn, reader, response, err
}

func TestProxyConnectsToItsClustersOnly(t *testing.T) {
	p := newProxied(t)
	at := netip.MustParseAddr("fd6c:6971:6f00::1")
	p.SetClusters(map[string]netip.Addr{milan: at})
	for name, test := range map[string]struct {
		method, host, token string
		status              int
	}{
		"a provider":             {"CONNECT", milan + ".control.liqo:443", "good", 200},
		"another port of it":     {"CONNECT", milan + ".control.liqo:22", "good", 404},
		"an unknown cluster":     {"CONNECT", "naples.control.liqo:443", "good", 404},
		"this cluster's own API": {"CONNECT", "kubernetes.default.svc:443", "good", 404},
		"an address":             {"CONNECT", "[fd6c:6971:6f00::1]:5877", "good", 404},
		"no token":               {"CONNECT", milan + ".control.liqo:443", "", 407},
		"an invalid token":       {"CONNECT", milan + ".control.liqo:443", "unknown", 407},
		"no permission":          {"CONNECT", milan + ".control.liqo:443", "poor", 403},
		"another method":         {"GET", "http://" + milan + ".control.liqo/", "good", 405},
	} {
		t.Run(name, func(t *testing.T) {
			p.dialed = netip.AddrPort{}
			conn, _, response, err := p.request(test.method, test.host, test.token, "")
			if err != nil || response.StatusCode != test.status {
				t.Fatalf("%v, %+v", err, response)
			}
			conn.Close()
			if want := test.status == http.StatusOK; (p.dialed == netip.AddrPortFrom(at, 5877)) != want ||
				p.dialed.IsValid() != want {
				t.Errorf("dialed %s", p.dialed)
			}
			scheme := response.Header.Get("Proxy-Authenticate")
			if (scheme == "Bearer") != (test.status == http.StatusProxyAuthRequired) {
				t.Errorf("Proxy-Authenticate is %q", scheme)
			}
		})
	}
}

func TestProxyLosesNoBytes(t *testing.T) {
	p := newProxied(t)
	p.SetClusters(map[string]netip.Addr{milan: loopback})
	withoutRateLimit(&p.connections)
	rapid.Check(t, func(t *rapid.T) {
		early := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "before the response")
		text := rapid.SliceOfN(rapid.Byte(), 0, 1<<16).Draw(t, "after the response")
		conn, reader, response, err := p.request("CONNECT", milan+".control.liqo:443", "good", string(early))
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %+v", err, response)
		}
		received, err := exchange(&tunnelled{conn, reader}, text, rapid.IntRange(1, 1<<15).Draw(t, "piece"))
		sent := append(bytes.Clone(early), text...)
		if want := append(bytes.Clone(sent), sent...); err != nil || !bytes.Equal(received, want) {
			t.Fatalf("%v: %d bytes of %d", err, len(received), len(want))
		}
	})
}

// tunnelled is a connection whose reader may have buffered data behind the response.
type tunnelled struct {
	*tls.Conn
	reader io.Reader
}

func (c *tunnelled) Read(p []byte) (int, error) { return c.reader.Read(p) }

func TestConnectionsAreClosedWhenTheirClusterIsRemoved(t *testing.T) {
	p := newProxied(t)
	p.SetClusters(map[string]netip.Addr{milan: loopback})
	conn, _, response, err := p.request("CONNECT", milan+".control.liqo:443", "good", "")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %+v", err, response)
	}
	defer conn.Close()
	p.SetClusters(nil)
	ends(t, conn)
}

func TestProxyLimitsPendingClientsPerSource(t *testing.T) {
	p := newProxied(t)
	p.SetClusters(map[string]netip.Addr{milan: loopback})
	var all []net.Conn
	for range maxPendingPerSource {
		all = append(all, call(t, p.at))
	}
	ends(t, call(t, p.at))
	for _, conn := range all {
		conn.Close()
	}
	// Closed connections are detected asynchronously.
	for deadline := time.Now().Add(testTimeout); ; {
		conn, _, response, err := p.request("CONNECT", milan+".control.liqo:443", "good", "")
		if err == nil && response.StatusCode == http.StatusOK {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the limit still applies: %v", err)
		}
	}
}

func TestProxyClosesTheConnectionAfterAnErrorResponse(t *testing.T) {
	p := newProxied(t)
	conn, reader, response, err := p.request("GET", "/", "", "")
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed || !response.Close {
		t.Fatalf("%v, %+v", err, response)
	}
	defer conn.Close()
	if _, err := io.Copy(io.Discard, reader); err != nil {
		t.Error(err)
	}
}
