// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestNamespacesThatCannotExistAreRefused(t *testing.T) {
	tests := map[string]struct {
		info *request.RequestInfo
		want int
	}{
		"a namespace":          {&request.RequestInfo{IsResourceRequest: true, Namespace: "shop"}, http.StatusTeapot},
		"no namespace":         {&request.RequestInfo{IsResourceRequest: true}, http.StatusTeapot},
		"no resource":          {&request.RequestInfo{Namespace: ".."}, http.StatusTeapot},
		"no information":       {nil, http.StatusTeapot},
		"a step up":            {&request.RequestInfo{IsResourceRequest: true, Namespace: ".."}, http.StatusBadRequest},
		"a path":               {&request.RequestInfo{IsResourceRequest: true, Namespace: "a/b"}, http.StatusBadRequest},
		"a name that is long":  {&request.RequestInfo{IsResourceRequest: true, Namespace: strings.Repeat("a", 64)}, http.StatusBadRequest},
		"letters not in a DNS": {&request.RequestInfo{IsResourceRequest: true, Namespace: "Shop\n"}, http.StatusBadRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler := withNamespaceNames(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if test.info != nil {
				r = r.WithContext(request.WithRequestInfo(r.Context(), test.info))
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			if recorder.Code != test.want {
				t.Errorf("got %d, want %d: %s", recorder.Code, test.want, recorder.Body)
			}
		})
	}
}
