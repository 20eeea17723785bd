// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// HealthPaths are open to everybody, so that a kubelet can probe them. What
// lies beneath them is not.
var HealthPaths = []string{"/healthz", "/livez", "/readyz"}

// AnonymousOnlyOnHealthPaths refuses who has no name, anywhere but on
// HealthPaths, also when a front proxy passes such a request on.
func AnonymousOnlyOnHealthPaths(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(request)
		if err != nil || !ok {
			return response, ok, err
		}
		if response.User.GetName() == user.Anonymous && !slices.Contains(HealthPaths, request.URL.Path) {
			return nil, false, nil
		}
		return response, true, nil
	})
}
