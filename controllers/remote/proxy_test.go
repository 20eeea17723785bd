// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plain dials addresses of this machine, where the proxies of tests are.
var plain = (&net.Dialer{}).DialContext

// proxyThat starts a proxy that calls a function with each connection after it has
// read the request. The channel receives the requested addresses.
func proxyThat(
	t *testing.T, does func(connection net.Conn, read *bufio.Reader),
) (proxy string, requested <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	requests := make(chan string, 10)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				read := bufio.NewReader(connection)
				request, err := http.ReadRequest(read)
				if err != nil {
					return
				}
				requests <- request.Method + " " + request.Host
				does(connection, read)
			}()
		}
	}()
	return "http://" + listener.Addr().String(), requests
}

func dialThrough(t *testing.T, proxy string) (net.Conn, error) {
	t.Helper()
	through, err := newTunnel(proxy, nil, plain)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := through.DialContext(t.Context(), "tcp", "milan.example.com:6443")
	if err == nil {
		t.Cleanup(func() { connection.Close() })
	}
	return connection, err
}

func TestProxyNoBytesLost(t *testing.T) {
	const early, late = "the first bytes of the peer", ", and the following ones"
	for name, answers := range map[string][]string{
		"with the response": {"HTTP/1.1 200 OK\r\n\r\n" + early, late},
		"with the second part": {
			"HTTP/1.1 200 Connection est", "ablished\r\nVia: 1.1 proxy\r\n\r\n" + early + late,
		},
		"with a content length":   {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + early, late},
		"all of it after a while": {"HTTP/1.0 200 OK\r\n\r\n", early, late},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, requested := proxyThat(t, func(connection net.Conn, read *bufio.Reader) {
				for i, answer := range answers {
					if _, err := io.WriteString(connection, answer); err != nil {
						t.Error(err)
					}
					// The next part is sent after the previous one was read.
					if i > 0 || strings.Contains(answer, "\r\n\r\n") {
						if _, err := read.ReadByte(); err != nil {
							return
						}
					}
				}
			})
			connection, err := dialThrough(t, proxy)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 0, len(early+late))
			for len(got) < cap(got) {
				if _, err := connection.Write([]byte("?")); err != nil {
					t.Fatal(err)
				}
				n, err := connection.Read(got[len(got):cap(got)])
				if err != nil {
					t.Fatalf("after %q: %v", got, err)
				}
				got = got[:len(got)+n]
			}
			if diff := cmp.Diff(early+late, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := <-requested; got != "CONNECT milan.example.com:6443" {
				t.Errorf("requested from the proxy: %q", got)
			}
		})
	}
}

func TestRefusalsOfAProxyAreDescribed(t *testing.T) {
	responds := func(answer string) func(net.Conn, *bufio.Reader) {
		return func(connection net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(connection, answer) }
	}
	for _, test := range []struct {
		name string
		does func(net.Conn, *bufio.Reader)
		want string
	}{
		{
			"password required",
			responds("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=secret\r\n\r\n"),
			"requires a password for milan.example.com:6443 (407",
		},
		{
			"cannot connect", responds("HTTP/1.1 502 Whatever\r\nContent-Length: 6\r\n\r\nsecret"),
			"does not connect to milan.example.com:6443 (502 Bad Gateway)",
		},
		{
			"redirect", responds("HTTP/1.1 302 Found\r\nLocation: https://secret\r\n\r\n"),
			"does not connect to milan.example.com:6443 (302 Found)",
		},
		{"no HTTP", responds("SSH-2.0-OpenSSH\r\n"), "reading its response"},
		{"closed connection", func(net.Conn, *bufio.Reader) {}, "reading its response"},
		{
			"endless response", responds("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxTunnelResponse+1)),
			"reading its response",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy, _ := proxyThat(t, test.does)
			_, err := dialThrough(t, proxy)
			described := Describe(err)
			if !Unreachable(err) || Rejected(err) || !strings.Contains(described, test.want) ||
				!strings.Contains(described, "the proxy 127.0.0.1:") {
				t.Errorf("error %v (%s)", err, described)
			}
			if strings.Contains(described, "secret") {
				t.Errorf("the text of the proxy is repeated: %s", described)
			}
		})
	}
}

func TestAnUnreachableProxyIsDescribedTheSameEachTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	_, first := dialThrough(t, "http://"+listener.Addr().String())
	_, second := dialThrough(t, "http://"+listener.Addr().String())
	if Describe(first) != Describe(second) || !strings.Contains(Describe(first), "refused") {
		t.Errorf("%q, then %q", Describe(first), Describe(second))
	}
}

func TestAProxyWithoutAResponseTimesOut(t *testing.T) {
	proxy, _ := proxyThat(t, func(_ net.Conn, read *bufio.Reader) { _, _ = read.ReadByte() })
	through, err := newTunnel(proxy, nil, plain)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := through.DialContext(ctx, "tcp", "milan.example.com:6443"); err == nil || !Unreachable(err) {
		t.Errorf("error %v", err)
	}
}

// forward returns the handler of a proxy that connects to one server, for any
// requested address.
func forward(server *httptest.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		backend, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer backend.Close()
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(backend, buffered) }()
		_, _ = io.Copy(client, backend)
	}
}

func TestOnlyThePeerReceivesTheIdentityThroughAProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.of.the.environment:1")
	server, _ := peer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
	shown := make(chan string, 10)
	leads := forward(server)
	proxies := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization") + r.Header.Get("Proxy-Authorization")
		leads(w, r)
	}))
	proxies.StartTLS()
	t.Cleanup(proxies.Close)
	pems := func(server *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	// Certificates of httptest are for example.com, too.
	identity := &Identity{Server: "https://example.com:6443", CA: pems(server), Token: "token", ProxyURL: proxies.URL}
	identity.CA = append(identity.CA, pems(proxies)...)
	config, err := Config(identity, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if "https://"+address != proxies.URL {
			return nil, errors.New("not through the proxy")
		}
		return plain(ctx, network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, config, "/"); err != nil || got != "Bearer token" {
		t.Errorf("the peer received %q, %v", got, err)
	}
	if got := <-shown; got != "" {
		t.Errorf("the proxy received %q", got)
	}
}

func TestProxiesAreURLsWithoutSecrets(t *testing.T) {
	for _, proxy := range []string{
		"proxy:3128", "socks5://proxy.example.com", "http://", "http://user:secret@proxy.example.com",
	} {
		if _, err := Config(&Identity{Server: "https://192.0.2.1", Token: "token", ProxyURL: proxy}, Options{}); err == nil {
			t.Errorf("%q was accepted", proxy)
		}
	}
	for proxy, address := range map[string]string{
		"http://proxy.example.com": "proxy.example.com:80", "https://proxy.example.com/": "proxy.example.com:443",
		"http://[2001:db8::1]:3128": "[2001:db8::1]:3128",
	} {
		parsed, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&tunnel{proxy: parsed}).address(); got != address {
			t.Errorf("%s: dialled %s, want %s", proxy, got, address)
		}
	}
}
