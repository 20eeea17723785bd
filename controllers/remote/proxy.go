// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

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
	"net/url"
	"os"
	"strings"
	"time"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// tunnelTimeout bounds how long a proxy may take to reach a peer.
	tunnelTimeout = 20 * time.Second
	// maxTunnelAnswer bounds what a proxy answers with, in bytes.
	maxTunnelAnswer = 64 << 10
)

// ProxyError says that the proxy on the way to a peer does not lead there.
type ProxyError struct {
	// Proxy is the host and the port of the proxy.
	Proxy string
	// Err is what went wrong with it.
	Err error
}

// Error names the proxy.
func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy %s: %v", e.Proxy, e.Err) }

// Unwrap gives what went wrong.
func (e *ProxyError) Unwrap() error { return e.Err }

// tunnel dials peers through an HTTP proxy. Requests and upgraded connections
// share it: http.Transport's own proxies are for requests alone, and would show
// an https proxy the identity that is meant for the peer.
type tunnel struct {
	proxy *url.URL
	// roots verify an https proxy.
	roots *x509.CertPool
	dial  DialFunc
	// to is what the proxy is asked for; empty: the server's own address.
	to string
	// tokenFile holds what is shown to the proxy; empty: nothing is.
	tokenFile string
}

// newTunnel makes a tunnel through a proxy that is dialled by a function. What
// verifies an https proxy are the system's authorities and those of a bundle.
func newTunnel(proxy string, bundle []byte, dial DialFunc) (*tunnel, error) {
	parsed, err := url.Parse(proxy)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" || parsed.User != nil {
		return nil, fmt.Errorf("the proxy %q is not an http or https URL", proxy)
	}
	t := &tunnel{proxy: parsed, dial: dial}
	if parsed.Scheme == "https" {
		if t.roots, err = x509.SystemCertPool(); err != nil {
			t.roots = x509.NewCertPool()
		}
		t.roots.AppendCertsFromPEM(bundle)
	}
	return t, nil
}

// newControl makes a tunnel through the proxy of our own gateway, which knows
// the way to the peer. It is verified with its own authorities and no others,
// since it is shown a token.
func newControl(identity *Identity, dial DialFunc) (*tunnel, error) {
	t, err := newTunnel(identity.ProxyURL, nil, dial)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if t.proxy.Scheme != "https" || !roots.AppendCertsFromPEM(identity.ProxyCA) {
		return nil, fmt.Errorf("the gateway's proxy %q needs https and certificate authorities", identity.ProxyURL)
	}
	t.roots, t.tokenFile = roots, identity.ProxyTokenFile
	t.to = net.JoinHostPort(identity.Control+"."+v1alpha1.ControlDomain, "443")
	return t, nil
}

// DialContext connects to host:port.
func (t *tunnel) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tunnelTimeout)
	defer cancel()
	if t.to != "" {
		address = t.to
	}
	connection, err := t.connect(ctx, network, address)
	if err != nil {
		return nil, &ProxyError{Proxy: t.address(), Err: err}
	}
	return connection, nil
}

func (t *tunnel) address() string {
	port := t.proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.proxy.Scheme]
	}
	return net.JoinHostPort(t.proxy.Hostname(), port)
}

func (t *tunnel) connect(ctx context.Context, network, address string) (net.Conn, error) {
	header := http.Header{"User-Agent": {userAgent}}
	if t.tokenFile != "" {
		// The kubelet writes another one before it ends.
		token, err := os.ReadFile(t.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token for it: %w", err)
		}
		header.Set("Proxy-Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	connection, err := t.dial(ctx, network, t.address())
	if err != nil {
		return nil, err
	}
	if t.proxy.Scheme == "https" {
		connection = tls.Client(connection, &tls.Config{ServerName: t.proxy.Hostname(), RootCAs: t.roots, MinVersion: tls.VersionTLS12})
	}
	// A deadline in the past ends what waits for the proxy.
	disarm := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })
	through, err := ask(connection, address, header)
	if !disarm() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	return through, nil
}

// ask has a proxy connect to an address. Its answer may come before it knows
// whether it can, and bring along what the peer said first.
func ask(connection net.Conn, address string, header http.Header) (net.Conn, error) {
	request := &http.Request{
		Method: http.MethodConnect, Host: address, URL: &url.URL{Opaque: address},
		Header: header,
	}
	if err := request.Write(connection); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(io.LimitReader(connection, maxTunnelAnswer))
	response, err := http.ReadResponse(reader, request)
	var operation *net.OpError
	switch {
	case errors.As(err, &operation):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("its answer cannot be read: %v", err)
	}
	// The body is not closed: after a yes it is the tunnel, after a no nobody
	// needs it. What a proxy says in words may be meant for its users alone.
	answer := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	switch {
	case response.StatusCode == http.StatusProxyAuthRequired && header.Get("Proxy-Authorization") != "":
		return nil, fmt.Errorf("it does not know who this is (%s)", answer)
	case response.StatusCode == http.StatusProxyAuthRequired:
		return nil, fmt.Errorf("it wants a password for the way to %s (%s), and proxyURL has none: have it let this cluster through without", address, answer)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it does not connect to %s (%s)", address, answer)
	}
	if reader.Buffered() == 0 {
		return connection, nil
	}
	early, err := reader.Peek(reader.Buffered())
	return &started{Conn: connection, early: bytes.NewReader(early)}, err
}

// started is a connection of which something was read already.
type started struct {
	net.Conn
	early *bytes.Reader
}

// Read reads first what came first.
func (s *started) Read(p []byte) (int, error) {
	if s.early.Len() > 0 {
		return s.early.Read(p)
	}
	return s.Conn.Read(p)
}
