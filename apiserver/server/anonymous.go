// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// HealthPaths are the paths that unauthenticated users may get, so that a kubelet can probe them.
// Subpaths, for example /readyz/etcd, are not included.
var HealthPaths = []string{"/healthz", "/livez", "/readyz"}

// AnonymousOnlyOnHealthPaths returns an authenticator that refuses anonymous users except on
// HealthPaths. It also refuses anonymous users whose requests a front proxy forwards.
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
