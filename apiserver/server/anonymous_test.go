// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestAnonymousIsAuthenticatedOnlyOnHealthPaths(t *testing.T) {
	broken := errors.New("expired token")
	tests := map[string]struct {
		path string
		user string
		err  error
		want bool
	}{
		"anonymous on /livez":                   {path: "/livez", user: user.Anonymous, want: true},
		"anonymous on /readyz":                  {path: "/readyz?verbose", user: user.Anonymous, want: true},
		"anonymous on /healthz":                 {path: "/healthz", user: user.Anonymous, want: true},
		"anonymous beneath a health path":       {path: "/readyz/etcd", user: user.Anonymous},
		"anonymous on a similar path":           {path: "/healthzz", user: user.Anonymous},
		"anonymous on /metrics":                 {path: "/metrics", user: user.Anonymous},
		"anonymous on the API":                  {path: "/apis/federation.liqo.io/v1alpha1", user: user.Anonymous},
		"jane on the API":                       {path: "/apis/federation.liqo.io/v1alpha1", user: "jane", want: true},
		"no user":                               {path: "/livez"},
		"credentials that are wrong on /livez":  {path: "/livez", user: user.Anonymous, err: broken},
		"credentials that are wrong on the API": {path: "/apis", user: "jane", err: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			delegate := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				if test.user == "" || test.err != nil {
					return nil, false, test.err
				}
				return &authenticator.Response{User: &user.DefaultInfo{Name: test.user}}, true, nil
			})
			response, ok, err := AnonymousOnlyOnHealthPaths(delegate).AuthenticateRequest(httptest.NewRequest(http.MethodGet,
				test.path, nil))
			if !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			if ok != test.want {
				t.Errorf("authenticated: %v, want %v", ok, test.want)
			}
			if ok && response.User.GetName() != test.user {
				t.Errorf("authenticated as %s, want %s", response.User.GetName(), test.user)
			}
		})
	}
}
