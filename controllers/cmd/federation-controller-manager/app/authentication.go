// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/controllers/clientca"
)

// healthPaths are the only paths that anonymous requests may read. Their subpaths require authentication.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// authenticate configures the authentication of requests to the health and metrics endpoints, and returns a health
// check that fails until the CA bundle of client certificates is loaded. The server may start before that.
// authenticate fails if the CA bundle cannot be read, unless --authentication-tolerate-lookup-failure is set.
func authenticate(
	ctx context.Context, options genericoptions.DelegatingAuthenticationOptions, client kubernetes.Interface,
	serving *genericapiserver.SecureServingInfo,
) (*genericapiserver.AuthenticationInfo, healthz.HealthChecker, error) {
	var authority *clientca.Authority
	if options.ClientCert == (genericoptions.ClientCertAuthenticationOptions{}) && !options.SkipInClusterLookup {
		var err error
		authority, err = clientca.New(ctx, client)
		if err != nil && !options.TolerateInClusterLookupFailure {
			return nil, nil, err
		}
		if authority != nil {
			options.ClientCert.CAContentProvider = authority
		}
	}
	info := &genericapiserver.AuthenticationInfo{}
	if err := options.ApplyTo(info, serving, nil); err != nil {
		return nil, nil, err
	}
	info.Authenticator = anonymousOnlyOnHealthPaths(info.Authenticator)
	loaded := func(*http.Request) error { return clientca.Loaded(authority) }
	return info, healthz.NamedCheck("authorities", loaded), nil
}

// anonymousOnlyOnHealthPaths returns an authenticator that rejects anonymous requests to all paths except healthPaths.
// delegate accepts anonymous requests to every path and leaves them to RBAC.
func anonymousOnlyOnHealthPaths(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(request)
		if err == nil && ok && response.User.GetName() == user.Anonymous && !slices.Contains(healthPaths, request.URL.Path) {
			return nil, false, nil
		}
		return response, ok, err
	})
}
