// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
)

// peerWatches limits the concurrent watches of each peer. A watch takes memory as long as it lasts, and API Priority
// and Fairness counts it only when it begins.
type peerWatches struct {
	max   int
	mu    sync.Mutex
	count map[string]int
}

// withLimit returns a handler that responds with 429 to a watch of a peer that has the maximum number of watches.
func (p *peerWatches) withLimit(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		requester, known := request.UserFrom(r.Context())
		if !ok || !known || info.Verb != "watch" || !identity.IsPeer(requester.GetName(), requester.GetGroups()) {
			handler.ServeHTTP(w, r)
			return
		}
		name := requester.GetName()
		if !p.begin(name) {
			err := apierrors.NewTooManyRequests(fmt.Sprintf("this cluster permits a peer %d watches, and %q has as many: "+
				"the administrator of this cluster can raise fairness.maxPeerWatches of the chart", p.max, name), 10)
			responsewriters.ErrorNegotiated(err, Codecs, v1alpha1.SchemeGroupVersion, w, r)
			return
		}
		defer p.end(name)
		handler.ServeHTTP(w, r)
	})
}

func (p *peerWatches) begin(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count[name] >= p.max {
		return false
	}
	if p.count == nil {
		p.count = map[string]int{}
	}
	p.count[name]++
	return true
}

func (p *peerWatches) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count[name]--; p.count[name] == 0 {
		delete(p.count, name)
	}
}
