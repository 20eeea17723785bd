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

// permitted is an Authorizer that allows one verb on one subresource, for example "get nodes/proxy".
type permitted string

func (p permitted) Allowed(_ context.Context, _ user.Info, a authorizationv1.ResourceAttributes) (bool, error) {
	return a.Verb+" "+a.Resource+"/"+a.Subresource == string(p), nil
}

func TestProfilesRequireTheRightToGetNodesProxy(t *testing.T) {
	for _, test := range []struct {
		name      string
		profiling bool
		may       permitted
		want      int
	}{
		{"nodes/proxy", true, "get nodes/proxy", http.StatusOK},
		{"nodes/metrics only", true, "get nodes/metrics", http.StatusForbidden},
		{"nodes/proxy, profiling disabled", false, "get nodes/proxy", http.StatusNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			authenticated := func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: "operator"}}, true, nil
			}
			handler := New(Config{
				NodeName:  nodeName,
				Pods:      &fakePods{},
				Profiling: test.profiling,
				Metrics:   http.NotFoundHandler(),
				Usage:     http.NotFoundHandler(),
				Auth: &Auth{
					NodeName:      nodeName,
					Authenticator: authenticator.RequestFunc(authenticated),
					Authorizer:    test.may,
				},
			})
			for _, path := range []string{
				"/debug/pprof", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1",
			} {
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
				if response.Code != test.want {
					t.Errorf("GET %s: %d, want %d", path, response.Code, test.want)
				}
			}
		})
	}
}
