// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// collection identifies the objects that a list or watch requests.
type collection struct{ path, fields, labels string }

// received counts, for each collection, what a peer sent after the first page of the last list: an informer keeps all
// of that. Without these sums, a peer could fill the cache of an informer with any number of watches, each of which is
// short and closed without an error, so that client-go opens the next one without listing the objects again; or with
// any number of pages of a list.
//
// Collections are never removed: a client uses a small number of them.
type received struct {
	mu          sync.Mutex
	collections map[collection]*amounts
}

// amounts are what a peer sent for one collection: pages is the sum of the pages of a list after its first page, and
// watches is the sum of the events of watches.
type amounts struct{ pages, watches amount }

type amount struct{ bytes, objects int64 }

// sum returns a function that adds to what was received in the responses to requests like this one, and returns the
// sum. A request that makes an informer replace all objects of its cache begins a new sum. It returns nil for a request
// whose response does not continue an earlier one.
func (r *received) sum(request *http.Request, kind stream) func(more amount) amount {
	query := request.URL.Query()
	of := collection{request.URL.Path, query.Get("fieldSelector"), query.Get("labelSelector")}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.collections[of]
	list := kind == notAStream && request.Method == http.MethodGet
	page := list && query.Get("continue") != ""
	if known != nil && (list && !page || kind == watchStream && sendsInitialEvents(query)) {
		*known = amounts{}
	}
	if kind != watchStream && !page {
		return nil
	}
	if known == nil {
		known = &amounts{}
		if r.collections == nil {
			r.collections = map[collection]*amounts{}
		}
		r.collections[of] = known
	}
	total := &known.pages
	if kind == watchStream {
		total = &known.watches
	}
	return func(more amount) amount {
		r.mu.Lock()
		defer r.mu.Unlock()
		total.bytes += more.bytes
		total.objects += more.objects
		return *total
	}
}

// sendsInitialEvents reports whether a watch begins with all objects, which replace those in the cache of an informer.
func sendsInitialEvents(query url.Values) bool {
	initial, err := strconv.ParseBool(query.Get("sendInitialEvents"))
	return err == nil && initial
}
