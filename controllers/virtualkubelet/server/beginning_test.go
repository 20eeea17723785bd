// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A provider responds to an upgrade request with an endless header. The client gets an error.
func TestUpgradeResponsesAreBounded(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\n"); err != nil {
			return
		}
		// The header ends after more than the client may read, so that the test ends without the limit, too.
		for range 64 {
			if _, err := io.WriteString(connection, "X-Name: "+strings.Repeat("x", 64<<10)+"\r\n"); err != nil {
				return
			}
		}
		_, _ = io.WriteString(connection, "\r\n")
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		n.url+"/exec/demo/web/app?command=sh&output=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "SPDY/3.1")
	response := n.send(t, request)
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusBadGateway ||
		!strings.Contains(string(text), errUpgradeTooLarge.Error()) {
		t.Errorf("status %d %s, error %v; want %d and %q",
			response.StatusCode, text, err, http.StatusBadGateway, errUpgradeTooLarge)
	}
}

func TestLimitsOfAConnectionEndWithTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, remote := net.Pipe()
		defer remote.Close()
		begin := &beginning{ResponseWriter: httptest.NewRecorder()}
		dial := limitedDial(func(context.Context, string, string) (net.Conn, error) { return local, nil })
		connection, err := dial(context.WithValue(t.Context(), beginningKey{}, begin), "tcp", "milan:6443")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var late net.Error
		if _, err := connection.Read(make([]byte, 1)); !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("error %v, want a timeout", err)
		}
		if took := time.Since(start); took != upgradeTimeout {
			t.Errorf("the connection waited for %v, want %v", took, upgradeTimeout)
		}
		// A recorder has no connection of a client.
		if _, _, err := begin.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("error %v", err)
		}
		go func() {
			timer := time.NewTimer(time.Hour)
			<-timer.C
			_, _ = io.WriteString(remote, strings.Repeat("x", 2*maxUpgrade))
		}()
		if _, err := io.ReadFull(connection, make([]byte, 2*maxUpgrade)); err != nil {
			t.Errorf("reading after the beginning: %v", err)
		}
	})
}
