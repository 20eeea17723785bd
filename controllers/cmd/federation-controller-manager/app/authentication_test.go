// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestAnonymousRequestsAreAcceptedOnlyOnHealthPaths(t *testing.T) {
	broken := errors.New("no such token")
	for name, test := range map[string]struct {
		path, user string
		err        error
		want       bool
	}{
		"anonymous on /healthz":                {path: "/healthz", user: user.Anonymous, want: true},
		"anonymous on /livez":                  {path: "/livez", user: user.Anonymous, want: true},
		"anonymous on /readyz":                 {path: "/readyz?verbose", user: user.Anonymous, want: true},
		"anonymous below a health path":        {path: "/readyz/caches", user: user.Anonymous},
		"anonymous on /metrics":                {path: "/metrics", user: user.Anonymous},
		"anonymous on a path that RBAC allows": {path: "/version", user: user.Anonymous},
		"anonymous on an unknown path":         {path: "/nothing", user: user.Anonymous},
		"user on /metrics":                     {path: "/metrics", user: "prometheus", want: true},
		"wrong credentials on a health path":   {path: "/livez", err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			delegate := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: test.user}}, test.err == nil, test.err
			})
			request := httptest.NewRequest(http.MethodGet, test.path, nil)
			_, ok, err := anonymousOnlyOnHealthPaths(delegate).AuthenticateRequest(request)
			if ok != test.want || !errors.Is(err, test.err) {
				t.Errorf("accepted: %v, error: %v", ok, err)
			}
		})
	}
}
