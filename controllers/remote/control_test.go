// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A provider that is reached through the tunnel: the cluster is requested from the gateway's
// proxy by its id, and TLS is with the provider.
func TestAProviderIsReachedThroughTheGatewaysProxy(t *testing.T) {
	milan := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.ServerName+r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(milan.Close)
	var requested, shown string
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requested, shown = r.Host, r.Header.Get("Proxy-Authorization"); shown != "Bearer valid" {
			http.Error(w, "", http.StatusProxyAuthRequired)
			return
		}
		there, err := net.Dial("tcp", milan.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		local, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(local, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, local); there.Close() }()
		_, _ = io.Copy(local, there)
		local.Close()
	}))
	t.Cleanup(proxy.Close)
	authority := func(s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	token := filepath.Join(t.TempDir(), KeyProxyToken)
	identity := &Identity{
		Server: "https://example.com", CA: authority(milan), Token: "identity", Namespace: "liqo-tenant-rome",
		ProxyURL: "https://example.com:5878", ProxyCA: authority(proxy),
		Control: "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11", ProxyTokenFile: token,
	}
	get := func() (string, error) {
		config, err := Config(identity, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "example.com:5878" {
				t.Errorf("%s was dialled, want the proxy", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, proxy.Listener.Addr().String())
		}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(config.Host)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}

	if _, err := get(); err == nil || !strings.Contains(err.Error(), "reading the token for it") {
		t.Errorf("without a token: %v", err)
	}
	for _, test := range []struct{ token, response, fails string }{
		{"invalid", "", "rejects the token"},
		{"valid\n", "example.com", ""},
	} {
		if err := os.WriteFile(token, []byte(test.token), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := get()
		if text != test.response || (err == nil) != (test.fails == "") || err != nil &&
			!strings.Contains(err.Error(), test.fails) {
			t.Errorf("with the token %q: %q, %v", test.token, text, err)
		}
		if requested != identity.Control+".control.liqo:443" {
			t.Errorf("requested from the proxy: %s", requested)
		}
	}

	identity.ProxyCA = nil
	if _, err := Config(identity, Options{}); err == nil {
		t.Error("a proxy that nothing verifies would be shown the token")
	}
}

func TestAnIdentityForTheTunnelIsStoredInItsSecret(t *testing.T) {
	identity := &Identity{
		ProxyURL: "https://federation-control.liqo.svc:5878", ProxyCA: []byte("authorities"), Control: "3f1ad3a5",
	}
	data := identity.Data()
	if string(data[KeyControl]) != "3f1ad3a5" || string(data[KeyProxyCA]) != "authorities" {
		t.Errorf("%q", data)
	}
	other := *identity
	if other.Control = "another"; identity.Equal(&other) {
		t.Error("two clusters are the same")
	}
}
