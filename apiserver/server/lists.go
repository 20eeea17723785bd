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

// withPlainLists returns a handler that serves lists of peers as protobuf, if they accept it, or as JSON
// without indentation: the encoders of these write item by item. Others, for example of tables or YAML,
// buffer a long list several times before they send it. Programs of a peer accept either.
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
	// Browsers and curl get indentation by default.
	query.Set("pretty", "false")
	changed.URL.RawQuery = query.Encode()
	mediaType := runtime.ContentTypeJSON
	if takesProtobuf(r) {
		mediaType = runtime.ContentTypeProtobuf
	}
	changed.Header.Set("Accept", mediaType)
	return changed
}

// takesProtobuf reports whether a request accepts objects in protobuf. A media type with parameters requests
// another form, for example a table.
func takesProtobuf(r *http.Request) bool {
	for _, accepted := range strings.Split(r.Header.Get("Accept"), ",") {
		if strings.TrimSpace(accepted) == runtime.ContentTypeProtobuf {
			return true
		}
	}
	return false
}
