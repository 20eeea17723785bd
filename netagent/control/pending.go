// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"net/http"
	"sync"

	"liqo.io/federation/netagent/agent"
)

// maxPendingPerSource bounds the connections from one source that are not connected to a destination yet.
const maxPendingPerSource = 128

// pendingClients counts such connections by source, so that one source cannot use up the limit of all.
type pendingClients struct {
	mu    sync.Mutex
	count map[string]int
}

// track processes a state change of a connection, and closes the connection if there are too many from its
// source.
func (a *pendingClients) track(conn net.Conn, state http.ConnState) {
	from := agent.SourceOf(conn.RemoteAddr().String())
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
