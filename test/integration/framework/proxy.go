// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// ProxyURL is the URL for spec.proxyURL of a client whose connections use Proxy.Dial.
const ProxyURL = "http://proxy.example.com:3128"

// Proxy is an HTTP proxy. The cluster is reachable at AdvertisedServer only through it.
type Proxy struct {
	server *httptest.Server
	target string

	mu sync.Mutex
	// hasty is true if the proxy responds before it is connected to the server.
	hasty   bool
	refusal int
	asked   []string
	open    []net.Conn
}

// StartProxy starts a proxy, and stops it when the test ends.
func (e *Environment) StartProxy(t testing.TB) *Proxy {
	t.Helper()
	target, err := url.Parse(e.apiserver)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target.Host}
	// The proxy listens on all addresses, because programs refuse to connect to loopback addresses
	// for a peer.
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Listener.Close()
	p.server.Listener = listener
	p.server.Start()
	t.Cleanup(func() {
		p.Cut()
		p.server.Close()
	})
	return p
}

// Dial connects to this proxy if address is the host of ProxyURL, and fails otherwise.
func (p *Proxy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if known, err := url.Parse(ProxyURL); err != nil || address != known.Host {
		return nil, fmt.Errorf("%s was dialled instead of the proxy (%w)", address, errors.Join(err, net.ErrClosed))
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(loopback.String(), p.port()))
}

func (p *Proxy) port() string {
	return strconv.Itoa(p.server.Listener.Addr().(*net.TCPAddr).Port)
}

// AddressURL returns the URL of the proxy at an address of this machine that is not a loopback
// address.
func (p *Proxy) AddressURL(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return "http://" + net.JoinHostPort(network.IP.String(), p.port())
		}
	}
	t.Fatal("this machine has only loopback and link-local addresses")
	return ""
}

// Refuse makes the proxy respond to all requests with an HTTP status. 0 makes it connect clients again.
func (p *Proxy) Refuse(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal = status
}

// Hasty makes the proxy respond with 200 before it is connected to the server.
func (p *Proxy) Hasty() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasty = true
}

// Asked returns the addresses that clients requested connections to.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Cut closes all connections through the proxy.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range p.open {
		connection.Close()
	}
	p.open = nil
}

// ServeHTTP connects a client to the cluster, unless the proxy refuses requests.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Host)
	refusal, hasty := p.refusal, p.hasty
	p.mu.Unlock()
	known, err := url.Parse(AdvertisedServer)
	switch {
	case refusal != 0:
		http.Error(w, "a page for people", refusal)
		return
	case err != nil || r.Method != http.MethodConnect || r.Host != known.Host:
		http.Error(w, "this leads to the cluster alone", http.StatusForbidden)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	const yes = "HTTP/1.1 200 Connection established\r\n\r\n"
	if hasty {
		_, err = io.WriteString(client, yes)
	}
	backend, dialErr := net.Dial("tcp", p.target)
	if dialErr != nil {
		return
	}
	defer backend.Close()
	if !hasty {
		_, err = io.WriteString(client, yes)
	}
	if err != nil {
		return
	}
	p.mu.Lock()
	p.open = append(p.open, client, backend)
	p.mu.Unlock()
	// The client may have sent data with its request, which is in the buffer.
	var both sync.WaitGroup
	both.Go(func() { pipe(backend, buffered) })
	both.Go(func() { pipe(client, backend) })
	both.Wait()
}

// pipe copies from one connection to the other until one of them ends. Then it closes the connection to which it
// copies.
func pipe(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}
