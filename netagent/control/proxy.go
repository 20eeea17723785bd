// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reviewlimit"
	"liqo.io/federation/netagent/model"
)

// Proxy connects local controllers to the API servers of providers. It is an HTTP proxy for the method CONNECT
// that accepts the names of clusters only.
type Proxy struct {
	// Allowed returns 200 if the client that sent a token from an address may connect, and otherwise the HTTP status to
	// respond with. It fails if this cannot be determined.
	Allowed func(ctx context.Context, from, token string) (int, error)
	// Dial connects to a gateway through its tunnel.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	connections connections
	pending     pendingClients
	mu          sync.Mutex
	hosts       map[string]netip.Addr
}

// NewProxy returns a proxy without any clusters.
func NewProxy(
	allowed func(ctx context.Context, from, token string) (int, error),
	dial func(context.Context, netip.AddrPort) (net.Conn, error),
) *Proxy {
	return &Proxy{Allowed: allowed, Dial: dial, connections: connections{maxPerPeer: maxPerPeer, maxTotal: maxTotal}}
}

// SetClusters sets the clusters that clients may connect to, as control addresses by cluster ID. Connections to
// other clusters are closed.
func (p *Proxy) SetClusters(clusters map[string]netip.Addr) {
	hosts := make(map[string]netip.Addr, len(clusters))
	for id, at := range clusters {
		hosts[net.JoinHostPort(id+"."+v1alpha1.ControlDomain, "443")] = at
	}
	p.mu.Lock()
	p.hosts = hosts
	p.mu.Unlock()
	p.connections.allow(slices.Collect(maps.Values(hosts)))
}

// Serve serves until the context ends, and closes the listener. certificate returns the serving certificate of a
// connection. Serve fails if a connection cannot be accepted.
func (p *Proxy) Serve(
	ctx context.Context,
	listener net.Listener,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) error {
	server := &http.Server{
		Handler: p, BaseContext: func(net.Listener) context.Context { return ctx },
		// The timeouts do not apply to a hijacked connection.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		TLSConfig: &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12},
		// HTTP/2 connections cannot be hijacked.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ConnState:    p.pending.track,
	}
	// A connection carries one request.
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	defer p.SetClusters(nil)
	if err := server.ServeTLS(netutil.LimitListener(listener, maxClients), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// ServeHTTP connects an authorized client to the API server of the requested cluster, and responds with an error
// otherwise.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := p.connect(w, r)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Connecting to a peer's API server failed")
	}
	if status == http.StatusOK {
		return
	}
	if status == http.StatusProxyAuthRequired {
		w.Header().Set("Proxy-Authenticate", "Bearer")
	}
	http.Error(w, http.StatusText(status), status)
}

// connect forwards data between the client and the peer until one of them ends the connection. It returns the HTTP
// status, 200 if the connection was hijacked, and an error for a failure that the client did not cause.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) (int, error) {
	if r.Method != http.MethodConnect {
		return http.StatusMethodNotAllowed, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusProxyAuthRequired, nil
	}
	switch status, err := p.Allowed(r.Context(), reviewlimit.SourceOf(r.RemoteAddr), token); {
	case status == http.StatusUnauthorized:
		return http.StatusProxyAuthRequired, err
	case status != http.StatusOK:
		return status, err
	}
	p.mu.Lock()
	to, known := p.hosts[r.Host]
	p.mu.Unlock()
	if !known {
		return http.StatusNotFound, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
	defer cancel()
	peer, err := p.Dial(ctx, netip.AddrPortFrom(to, model.ControlPort))
	if err != nil {
		return http.StatusBadGateway, fmt.Errorf("connecting to the gateway of %s: %w", r.Host, err)
	}
	defer peer.Close()
	remove, err := p.connections.add(to, peer)
	switch {
	case errors.Is(err, errUnknown):
		return http.StatusNotFound, nil
	case err != nil:
		return http.StatusServiceUnavailable, err
	}
	defer remove()
	return http.StatusOK, p.hijack(w, peer)
}

// hijack takes over the client's connection, and forwards data between the client and the peer until one of them ends
// the connection. It fails if the connection cannot be hijacked.
func (p *Proxy) hijack(w http.ResponseWriter, peer net.Conn) error {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("hijacking the connection: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return nil // the client is gone
	}
	// The client may have sent data before the response.
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err == nil && len(early) > 0 {
		_, err = peer.Write(early)
	}
	if err != nil {
		return nil
	}
	pipe(conn, peer)
	return nil
}
