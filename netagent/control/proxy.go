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
	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/model"
)

// Proxy connects the controllers of this cluster with the API servers of those
// that lend to it. It is asked by CONNECT for the name of a cluster, and leads
// nowhere else.
type Proxy struct {
	// Allowed tells, by an HTTP status, whether the bearer of a token may ask, who
	// asks from somewhere; 200: yes.
	Allowed func(ctx context.Context, from, token string) (int, error)
	// Dial connects to a gateway through its tunnel.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	lines  lines
	askers askers
	mu     sync.Mutex
	hosts  map[string]netip.Addr
}

// NewProxy makes a proxy that leads nowhere yet.
func NewProxy(allowed func(ctx context.Context, from, token string) (int, error), dial func(context.Context, netip.AddrPort) (net.Conn, error)) *Proxy {
	return &Proxy{Allowed: allowed, Dial: dial, lines: lines{ofPeer: maxOfPeer, ofAll: maxOfAll}}
}

// Lead says which clusters are reached, by their ids, and where. Connections to
// others end.
func (p *Proxy) Lead(clusters map[string]netip.Addr) {
	hosts := make(map[string]netip.Addr, len(clusters))
	for id, at := range clusters {
		hosts[net.JoinHostPort(id+"."+v1alpha1.ControlDomain, "443")] = at
	}
	p.mu.Lock()
	p.hosts = hosts
	p.mu.Unlock()
	p.lines.allow(slices.Collect(maps.Values(hosts)))
}

// Serve answers until the context ends, and closes the listener. The function
// gives the certificate to show.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) error {
	server := &http.Server{
		Handler: p, BaseContext: func(net.Listener) context.Context { return ctx },
		// Who asks slowly, or sends what nobody wants, is not waited for; whoever is
		// connected is out of their reach.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readPatience, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		TLSConfig: &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12},
		// A connection of HTTP/2 cannot become a tunnel as a whole.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ConnState:    p.askers.follow,
	}
	// Who is not connected has no reason to stay.
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	defer p.Lead(nil)
	if err := server.ServeTLS(netutil.LimitListener(listener, maxAsking), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// ServeHTTP connects whoever may ask with the cluster that is named.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := p.connect(w, r)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "A connection to a peer's API server was not made")
	}
	if status == http.StatusOK {
		return
	}
	if status == http.StatusProxyAuthRequired {
		w.Header().Set("Proxy-Authenticate", "Bearer")
	}
	http.Error(w, http.StatusText(status), status)
}

// connect carries a connection until it ends, or gives the status to answer.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) (int, error) {
	if r.Method != http.MethodConnect {
		return http.StatusMethodNotAllowed, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusProxyAuthRequired, nil
	}
	switch status, err := p.Allowed(r.Context(), agent.SourceOf(r.RemoteAddr), token); {
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
	ctx, cancel := context.WithTimeout(r.Context(), dialPatience)
	defer cancel()
	peer, err := p.Dial(ctx, netip.AddrPortFrom(to, model.ControlPort))
	if err != nil {
		return http.StatusBadGateway, fmt.Errorf("calling the gateway of %s: %w", r.Host, err)
	}
	defer peer.Close()
	leave, err := p.lines.enter(to, peer)
	switch {
	case errors.Is(err, errUnknown):
		return http.StatusNotFound, nil
	case err != nil:
		return http.StatusServiceUnavailable, err
	}
	defer leave()
	return http.StatusOK, p.carry(w, peer)
}

// carry takes the connection of a request over.
func (p *Proxy) carry(w http.ResponseWriter, peer net.Conn) error {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("taking the connection over: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return nil // whoever asked is gone
	}
	// What was said at once, before the answer.
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err == nil && len(early) > 0 {
		_, err = peer.Write(early)
	}
	if err != nil {
		return nil
	}
	join(conn, peer)
	return nil
}
