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
	// tunnelTimeout is the timeout for connecting to a peer through a proxy.
	tunnelTimeout = 20 * time.Second
	// maxTunnelResponse is the maximum length, in bytes, of a proxy's response to the request for a connection.
	maxTunnelResponse = 64 << 10
)

// ProxyError is returned when the connection to a peer through a proxy fails.
type ProxyError struct {
	// Proxy is the host and the port of the proxy.
	Proxy string
	// Err is the error of connecting to the proxy, or of the proxy's response.
	Err error
}

// Error implements error.
func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy %s: %v", e.Proxy, e.Err) }

// Unwrap returns Err.
func (e *ProxyError) Unwrap() error { return e.Err }

// tunnel dials peers through an HTTP proxy, for requests and upgraded connections. The proxy support of http.Transport
// is for requests only, and would send the client certificate for the peer to an https proxy.
type tunnel struct {
	proxy *url.URL
	// roots are the CAs of an https proxy.
	roots *x509.CertPool
	dial  DialFunc
	// to is the host:port that the proxy is requested to connect to. Empty means the dialled address.
	to string
	// tokenFile is the file with the token for the proxy. Empty means none.
	tokenFile string
}

// newTunnel returns a tunnel through a proxy, which is dialled with dial. An https proxy is verified with the CAs of
// the system and of the bundle. It fails if the URL of the proxy is invalid.
func newTunnel(proxy string, bundle []byte, dial DialFunc) (*tunnel, error) {
	parsed, err := url.Parse(proxy)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" || parsed.User != nil {
		return nil, fmt.Errorf("the proxy %q must be an http or https URL, without a user", proxy)
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

// newControl returns a tunnel through the proxy of the local gateway. The proxy is verified with the CAs of the
// identity only, since it receives a token. It fails if the proxy has no https URL or no CAs.
func newControl(identity *Identity, dial DialFunc) (*tunnel, error) {
	t, err := newTunnel(identity.ProxyURL, nil, dial)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if t.proxy.Scheme != "https" || !roots.AppendCertsFromPEM(identity.ProxyCA) {
		return nil, fmt.Errorf("the local gateway's proxy %q must have an https URL and PEM certificate authorities: "+
			"correct --control-proxy and --control-proxy-ca-file", identity.ProxyURL)
	}
	t.roots, t.tokenFile = roots, identity.ProxyTokenFile
	t.to = net.JoinHostPort(identity.Control+"."+v1alpha1.ControlDomain, "443")
	return t, nil
}

// DialContext connects to host:port through the proxy. It fails with a ProxyError.
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
		// The kubelet replaces the token before it expires.
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
		connection = tls.Client(connection, &tls.Config{
			ServerName: t.proxy.Hostname(), RootCAs: t.roots, MinVersion: tls.VersionTLS12,
		})
	}
	// A deadline in the past interrupts reads and writes when the context ends.
	disarm := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })
	through, err := requestTunnel(connection, address, header)
	if !disarm() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	return through, nil
}

// requestTunnel requests a connection to an address from a proxy. The first bytes of the peer may arrive with the
// response of the proxy; the returned connection includes them. It fails if the proxy refuses or its response is
// invalid.
func requestTunnel(connection net.Conn, address string, header http.Header) (net.Conn, error) {
	request := &http.Request{
		Method: http.MethodConnect, Host: address, URL: &url.URL{Opaque: address},
		Header: header,
	}
	if err := request.Write(connection); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(io.LimitReader(connection, maxTunnelResponse))
	response, err := http.ReadResponse(reader, request)
	var operation *net.OpError
	switch {
	case errors.As(err, &operation):
		return nil, err
	case err != nil:
		//nolint:errorlint // Describe returns the innermost error, which does not name what was read.
		return nil, fmt.Errorf("reading its response: %v", err)
	}
	// The body is not closed: it is the tunnel, or the caller closes the connection. The text of the response is not
	// repeated, because it may contain secrets.
	status := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	switch {
	case response.StatusCode == http.StatusProxyAuthRequired && header.Get("Proxy-Authorization") != "":
		return nil, fmt.Errorf("it rejects the token (%s)", status)
	case response.StatusCode == http.StatusProxyAuthRequired:
		return nil, fmt.Errorf("it requires a password for %s (%s), and proxyURL cannot have one: "+
			"allow this cluster to use the proxy without a password", address, status)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it does not connect to %s (%s)", address, status)
	}
	if reader.Buffered() == 0 {
		return connection, nil
	}
	early, err := reader.Peek(reader.Buffered())
	return &bufferedConn{Conn: connection, early: bytes.NewReader(early)}, err
}

// bufferedConn is a connection whose first bytes were read already.
type bufferedConn struct {
	net.Conn
	early *bytes.Reader
}

// Read implements io.Reader. It returns the early bytes first.
func (s *bufferedConn) Read(p []byte) (int, error) {
	if s.early.Len() > 0 {
		return s.early.Read(p)
	}
	return s.Conn.Read(p)
}
