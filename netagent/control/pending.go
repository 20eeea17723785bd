// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"net/http"
	"sync"

	"liqo.io/federation/apiserver/reviewlimit"
)

// maxPendingPerSource bounds the client connections from one source that are not connected to a destination yet.
const maxPendingPerSource = 128

// pendingClients counts the client connections that are not connected to a destination yet, by source, so that
// one source cannot use up maxClients.
type pendingClients struct {
	mu    sync.Mutex
	count map[string]int
}

// track processes a state change of a client connection. It closes a new connection if more than maxPendingPerSource
// connections from its source are not connected to a destination yet.
func (a *pendingClients) track(conn net.Conn, state http.ConnState) {
	from := reviewlimit.SourceOf(conn.RemoteAddr().String())
	a.mu.Lock()
	defer a.mu.Unlock()
	switch state {
	case http.StateNew:
		if a.count == nil {
			a.count = make(map[string]int)
		}
		a.count[from]++
		if a.count[from] > maxPendingPerSource {
			// This leads to StateClosed, which decrements the count.
			_ = conn.Close()
		}
	case http.StateHijacked, http.StateClosed:
		if a.count[from]--; a.count[from] <= 0 {
			delete(a.count, from)
		}
	}
}
