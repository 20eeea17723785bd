// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// permitted may do one thing with the node.
type permitted string

func (p permitted) Allowed(_ context.Context, _ user.Info, what authorizationv1.ResourceAttributes) (bool, error) {
	return what.Verb+" "+what.Resource+"/"+what.Subresource == string(p), nil
}

func TestProfilesAreForWhoMayHaveAllOfTheNode(t *testing.T) {
	for _, test := range []struct {
		name      string
		profiling bool
		may       permitted
		want      int
	}{
		{"who may", true, "get nodes/proxy", http.StatusOK},
		{"who may see metrics", true, "get nodes/metrics", http.StatusForbidden},
		{"nobody, as long as they are not asked for", false, "get nodes/proxy", http.StatusNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			handler := New(Config{
				NodeName:  nodeName,
				Pods:      &fakePods{},
				Profiling: test.profiling,
				Metrics:   http.NotFoundHandler(),
				Usage:     http.NotFoundHandler(),
				Auth: &Auth{
					NodeName: nodeName,
					Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
						return &authenticator.Response{User: &user.DefaultInfo{Name: "operator"}}, true, nil
					}),
					Authorizer: test.may,
				},
			})
			for _, path := range []string{"/debug/pprof", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"} {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				if answer.Code != test.want {
					t.Errorf("GET %s: %d, want %d", path, answer.Code, test.want)
				}
			}
		})
	}
}
