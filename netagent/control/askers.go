// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"net/http"
	"sync"

	"liqo.io/federation/netagent/agent"
)

// maxOfSource bounds the connections from one place that ask to be connected,
// and are not yet.
const maxOfSource = 128

// askers are the connections that ask, by where they come from: nobody takes the
// place of all others, whoever he is.
type askers struct {
	mu    sync.Mutex
	count map[string]int
}

// follow takes notice of what becomes of a connection, and ends it if there are
// too many from where it comes.
func (a *askers) follow(conn net.Conn, state http.ConnState) {
	from := agent.SourceOf(conn.RemoteAddr().String())
	a.mu.Lock()
	defer a.mu.Unlock()
	switch state {
	case http.StateNew:
		if a.count == nil {
			a.count = make(map[string]int)
		}
		a.count[from]++
		if a.count[from] > maxOfSource {
			// That it is closed is told as well.
			_ = conn.Close()
		}
	case http.StateHijacked, http.StateClosed:
		if a.count[from]--; a.count[from] <= 0 {
			delete(a.count, from)
		}
	}
}
