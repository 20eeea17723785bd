// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/identity"
)

// withPlainLists returns a handler that answers list and watch requests of peers with protobuf if they
// accept it, and otherwise with JSON without indentation. These encoders send a list item by item.
// Encoders for tables or YAML would buffer the list several times, by which a peer could exhaust the
// memory of the server. The federation's own clients accept both formats.
func withPlainLists(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.RequestInfoFrom(r.Context())
		user, _ := request.UserFrom(r.Context())
		lists := info != nil && info.IsResourceRequest && (info.Verb == "list" || info.Verb == "watch")
		if lists && user != nil && identity.IsPeer(user.GetName(), user.GetGroups()) {
			r = plain(r)
		}
		handler.ServeHTTP(w, r)
	})
}

func plain(r *http.Request) *http.Request {
	changed := r.Clone(r.Context())
	query := changed.URL.Query()
	// By default, responses to browsers and curl are indented.
	query.Set("pretty", "false")
	changed.URL.RawQuery = query.Encode()
	mediaType := runtime.ContentTypeJSON
	if takesProtobuf(r) {
		mediaType = runtime.ContentTypeProtobuf
	}
	changed.Header.Set("Accept", mediaType)
	return changed
}

// takesProtobuf reports whether a request accepts protobuf. A media type with parameters does not
// count, because it requests another representation, for example a table.
func takesProtobuf(r *http.Request) bool {
	for _, accepted := range strings.Split(r.Header.Get("Accept"), ",") {
		if strings.TrimSpace(accepted) == runtime.ContentTypeProtobuf {
			return true
		}
	}
	return false
}
