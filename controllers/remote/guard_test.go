// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// peer starts a server of a remote cluster, and returns the configuration of an
// invitation to it.
func peer(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, err := Config(&Identity{Server: server.URL, CA: ca, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	// The server is on this machine, which the dialer forbids.
	config.Dial = nil
	return server, config
}

func get(t *testing.T, config *rest.Config, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestPeerRedirectRefused(t *testing.T) {
	reached := false
	target := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(target.Close)
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		_, config := peer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, code) })
		if _, err := get(t, config, "/api"); !errors.Is(err, ErrRedirect) {
			t.Errorf("%d: error %v", code, err)
		}
	}
	if reached {
		t.Error("the redirect was followed")
	}
}

func TestResponsesAreBoundedExceptStreams(t *testing.T) {
	endless := func(contentType string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			chunk := strings.Repeat("x", 1<<20)
			for range maxResponse>>20 + 1 {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}
	}
	for _, test := range []struct {
		name, contentType, path string
		bounded                 bool
	}{
		{"an object", "application/json", "/api/v1/namespaces", true},
		{"an object in protobuf", "application/vnd.kubernetes.protobuf", "/api/v1/namespaces", true},
		{"a response without a content type", "", "/api", true},
		{"a watch", "application/json", "/api/v1/pods?watch=true", false},
		{"a log", "text/plain", "/api/v1/namespaces/a/pods/b/log", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, config := peer(t, endless(test.contentType))
			body, err := get(t, config, test.path)
			if got := errors.Is(err, ErrResponseTooLarge); got != test.bounded {
				t.Errorf("read %d bytes, error %v", len(body), err)
			}
		})
	}
}

func TestTLSVerifiedByDefault(t *testing.T) {
	server, _ := peer(t, func(http.ResponseWriter, *http.Request) {})
	config, err := Config(&Identity{Server: server.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = nil
	_, err = get(t, config, "/")
	if err == nil || !Unreachable(err) || !strings.Contains(Describe(err), "certificate is not trusted") {
		t.Errorf("a certificate of an unknown CA: %v (%s)", err, Describe(err))
	}
}

func TestOnlyHTTPSServersAreDialled(t *testing.T) {
	for _, server := range []string{
		"", "http://10.0.0.1:6443", "https://", "https://user:secret@10.0.0.1", "https://10.0.0.1?x=y",
		"https://10.0.0.1#x", "unix:///run/x",
	} {
		if _, err := Config(&Identity{Server: server, Token: "token"}); err == nil {
			t.Errorf("%q was accepted", server)
		}
	}
}

func TestDescribeIsTheSameEachTime(t *testing.T) {
	server, config := peer(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	_, first := get(t, config, "/")
	_, second := get(t, config, "/")
	if Describe(first) != Describe(second) || !strings.Contains(Describe(first), "refused") {
		t.Errorf("%q, then %q", Describe(first), Describe(second))
	}
}

func TestTextIsBoundedAndPrintable(t *testing.T) {
	if got := Text("a\x1b[31mb\nc\x00d"); got != "a[31mb cd" {
		t.Errorf("Text = %q", got)
	}
	if got := Text(strings.Repeat("ä", 10_000)); len([]rune(got)) != maxText+1 {
		t.Errorf("%d characters are left", len([]rune(got)))
	}
}
