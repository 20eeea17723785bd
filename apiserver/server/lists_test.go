// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

func TestListsOfPeersAreServedPlain(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	peer := &user.DefaultInfo{Name: "0f4f7e5c", Groups: []string{v1alpha1.PeerGroup}}
	account := &user.DefaultInfo{Name: "system:serviceaccount:" + naming.TenantNamespace("rome") + ":federation-peer"}
	for _, test := range []struct {
		name, verb, query, accept string
		user                      user.Info
		wantQuery, wantAccept     string
	}{
		{"a list", "list", "limit=5", "application/json", peer, "limit=5&pretty=false", "application/json"},
		{"an indented list", "list", "pretty=true", "application/json", peer, "pretty=false", "application/json"},
		{"a list as YAML", "list", "", "application/yaml", peer, "pretty=false", "application/json"},
		{"a list as protobuf, otherwise as JSON", "list", "", "application/vnd.kubernetes.protobuf, application/json", peer, "pretty=false", "application/vnd.kubernetes.protobuf"},
		{"a table as protobuf", "list", "", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", peer, "pretty=false", "application/json"},
		{"a table", "list", "", table, account, "pretty=false", "application/json"},
		{"a table that is watched", "watch", "watch=1", table, account, "pretty=false&watch=1", "application/json"},
		{"an object as YAML", "get", "pretty=true", "application/yaml", peer, "pretty=true", "application/yaml"},
		{"a table for a user of this cluster", "list", "pretty=true", table, &user.DefaultInfo{Name: "jane"}, "pretty=true", table},
		{"a table for an account of this cluster", "list", "", table, &user.DefaultInfo{Name: "system:serviceaccount:default:peer"}, "", table},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got *http.Request
			handler := withPlainLists(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
			sent := httptest.NewRequest(http.MethodGet, "/apis?"+test.query, nil)
			sent.Header.Set("Accept", test.accept)
			ctx := request.WithRequestInfo(sent.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: test.verb})
			sent = sent.WithContext(request.WithUser(ctx, test.user))
			handler.ServeHTTP(httptest.NewRecorder(), sent)
			if query, accept := got.URL.RawQuery, got.Header.Get("Accept"); query != test.wantQuery ||
				accept != test.wantAccept {
				t.Errorf("got %q, %q", query, accept)
			}
			if sent.URL.RawQuery != test.query || sent.Header.Get("Accept") != test.accept {
				t.Error("the request of the caller was changed")
			}
		})
	}
}
