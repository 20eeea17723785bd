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

// withPlainLists answers the lists of peers as protobuf, if they take that, or as
// JSON without indentation, whatever they ask for: the forms that are written item
// by item. As a table, as YAML or indented, a long list lies in memory several times
// before its first byte is sent. What a peer runs takes either; who looks at tables
// is not a peer.
func withPlainLists(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.RequestInfoFrom(r.Context())
		who, _ := request.UserFrom(r.Context())
		if info != nil && info.IsResourceRequest && (info.Verb == "list" || info.Verb == "watch") && who != nil && identity.IsPeer(who.GetName(), who.GetGroups()) {
			r = plain(r)
		}
		handler.ServeHTTP(w, r)
	})
}

func plain(r *http.Request) *http.Request {
	changed := r.Clone(r.Context())
	query := changed.URL.Query()
	// Who calls itself a browser or curl gets indentation unless it says no.
	query.Set("pretty", "false")
	changed.URL.RawQuery = query.Encode()
	mediaType := runtime.ContentTypeJSON
	if takesProtobuf(r) {
		mediaType = runtime.ContentTypeProtobuf
	}
	changed.Header.Set("Accept", mediaType)
	return changed
}

// takesProtobuf tells whether a request is answered by objects in protobuf. With
// parameters it asks for something else, such as a table of them.
func takesProtobuf(r *http.Request) bool {
	for _, accepted := range strings.Split(r.Header.Get("Accept"), ",") {
		if strings.TrimSpace(accepted) == runtime.ContentTypeProtobuf {
			return true
		}
	}
	return false
}
