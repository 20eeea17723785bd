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

func TestMisspeltParametersAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, verb, query, want string
	}{
		{"a dry run", "create", "dryRun=All", ""},
		{"options of a deletion", "delete", "gracePeriodSeconds=3&propagationPolicy=Orphan&dryRun=All", ""},
		{"options of kubectl", "patch", "fieldManager=kubectl-patch&fieldValidation=Strict&force=true", ""},
		{"no parameter", "create", "", ""},
		{"a parameter of a newer version", "create", "shard=7", ""},
		{"a dry run in small letters", "create", "dryrun=All", "dryRun"},
		{"a dry run without a letter", "delete", "dryRn=All", "dryRun"},
		{"a grace period in the singular", "delete", "gracePeriodSecond=3", "gracePeriodSeconds"},
		{"the same of a request that reads", "get", "dryrun=All", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			reached := false
			handler := withKnownParameters(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
			r := httptest.NewRequest(http.MethodPost, "/?"+test.query, nil)
			r = r.WithContext(request.WithRequestInfo(r.Context(),
				&request.RequestInfo{IsResourceRequest: true, Verb: test.verb}))
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			refused := recorder.Code == http.StatusBadRequest
			if reached == refused || refused != (test.want != "") || !strings.Contains(recorder.Body.String(), test.want) {
				t.Errorf("reached is %t, got %d: %s", reached, recorder.Code, recorder.Body)
			}
		})
	}
}

func TestUnknownFieldsOfVerbsAreRefusedByDefault(t *testing.T) {
	for _, test := range []struct {
		name, verb, subresource, query, want string
	}{
		{"a verb", "create", "offload", "dryRun=All", "dryRun=All&fieldValidation=Strict"},
		{"a patch of a verb", "patch", "move", "", "fieldValidation=Strict"},
		{"a verb with warnings", "create", "peer", "fieldValidation=Warn", "fieldValidation=Warn"},
		{"the end of a verb", "delete", "peer", "dryRun=All", "dryRun=All"},
		{"a question", "get", "invitation", "", ""},
		{"a status, which a peer of a newer version may write", "update", "status", "", ""},
		{"an object", "create", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			handler := withStrictVerbs(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RawQuery }))
			r := httptest.NewRequest(http.MethodPost, "/?"+test.query, nil)
			handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(request.WithRequestInfo(r.Context(),
				&request.RequestInfo{IsResourceRequest: true, Verb: test.verb, Subresource: test.subresource})))
			if got != test.want {
				t.Errorf("got the query %q, want %q", got, test.want)
			}
		})
	}
}
