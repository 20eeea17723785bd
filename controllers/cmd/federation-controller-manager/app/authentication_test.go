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

func TestNobodyIsLetInOnlyOnHealthPaths(t *testing.T) {
	broken := errors.New("no such token")
	for name, test := range map[string]struct {
		path, user string
		err        error
		want       bool
	}{
		"nobody on /healthz":                   {path: "/healthz", user: user.Anonymous, want: true},
		"nobody on /livez":                     {path: "/livez", user: user.Anonymous, want: true},
		"nobody on /readyz":                    {path: "/readyz?verbose", user: user.Anonymous, want: true},
		"nobody beneath a health path":         {path: "/readyz/caches", user: user.Anonymous},
		"nobody on /metrics":                   {path: "/metrics", user: user.Anonymous},
		"nobody on what the roles let him see": {path: "/version", user: user.Anonymous},
		"nobody on a path that there is not":   {path: "/nothing", user: user.Anonymous},
		"somebody on /metrics":                 {path: "/metrics", user: "somebody", want: true},
		"wrong credentials on a health path":   {path: "/livez", err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			delegate := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: test.user}}, test.err == nil, test.err
			})
			request := httptest.NewRequest(http.MethodGet, test.path, nil)
			_, ok, err := anonymousOnlyOnHealthPaths(delegate).AuthenticateRequest(request)
			if ok != test.want || !errors.Is(err, test.err) {
				t.Errorf("let in: %v, error: %v", ok, err)
			}
		})
	}
}
