// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestProxyStripsIdentityHeaders(t *testing.T) {
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	config := n.config(n.authority)
	config.Impersonate.UserName = "system:admin"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			for _, header := range []string{
				"X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-Scopes", "Impersonate-Group",
				"X-Forwarded-For", "Cookie",
			} {
				r.Header.Set(header, "system:masters")
			}
			return next.RoundTrip(r)
		})
	})
	n.do(t, config, http.MethodGet, "/containerLogs/demo/web/app")
	_, requests := n.seen()
	if len(requests) != 1 {
		t.Fatalf("the provider received %d requests, want one", len(requests))
	}
	for header, values := range requests[0].Header {
		if header != "Accept-Encoding" && header != "User-Agent" {
			t.Errorf("%s: %s reached the provider", header, values)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// If the connection stayed open after a failed upgrade, further requests on it would reach the provider without
// authorization.
func TestFailedUpgradeClosesBackend(t *testing.T) {
	closed := make(chan error, 1)
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"); err != nil {
			t.Error(err)
		}
		if err := connection.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Error(err)
		}
		smuggled, err := io.ReadAll(connection)
		if len(smuggled) > 0 {
			err = fmt.Errorf("%q arrived after the refusal", smuggled)
		}
		closed <- err
	})
	certificate, key := n.authority.client("kube-apiserver-kubelet-client")
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := tls.Dial(
		"tcp",
		strings.TrimPrefix(n.url, "https://"),
		&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const upgrade = "POST /exec/demo/web/app?command=id&output=1 HTTP/1.1\r\nHost: node\r\n" +
		"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
	if _, err := io.WriteString(client, upgrade+"GET /api/v1/secrets HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the provider received no request")
	}
}

func TestNeverEmits3xx(t *testing.T) {
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{
		"", "/", "//", "/healthz/", "/pods/", "/stats", "/stats/", "/stats/summary/", "/metrics/", "/containerLogs",
		"/containerLogs/demo/web/app/", "/containerLogs/../pods", "/./pods", "//pods", "/exec/demo/web/app/",
		"/portForward/demo/web/", "/debug/pprof",
	} {
		if got := n.do(t, n.config(n.authority), http.MethodGet, path).StatusCode; got >= 300 && got < 400 {
			t.Errorf("%q: %d", path, got)
		}
	}
}
