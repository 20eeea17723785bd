// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"
)

func TestReachRequiresOneServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	listener.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		servers []string
		ca      string
		want    []string
	}{
		"the only one":           {servers: []string{plain.URL}},
		"the second of two":      {servers: []string{closed, plain.URL}},
		"with a trusted CA":      {servers: []string{secure.URL}, ca: ca},
		"no server is reached":   {servers: []string{closed, closed + "0"}, want: []string{closed + ": dial tcp", closed + "0: dial tcp"}},
		"with an untrusted CA":   {servers: []string{secure.URL}, want: []string{"certificate signed by unknown authority"}},
		"with a missing CA file": {servers: []string{plain.URL}, ca: filepath.Join(t.TempDir(), "missing"), want: []string{"reading the credentials for etcd"}},
		"a server without TLS":   {servers: []string{strings.Replace(plain.URL, "http", "https", 1)}, want: []string{"tls: "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Reach(t.Context(), storagebackend.TransportConfig{ServerList: test.servers, TrustedCAFile: test.ca})
			if len(test.want) == 0 {
				if err != nil {
					t.Errorf("got error %v", err)
				}
				return
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
}
