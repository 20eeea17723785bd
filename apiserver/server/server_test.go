// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func TestHandlerChainLimitsWatchesOfPeers(t *testing.T) {
	milan := &user.DefaultInfo{Name: "uid-of-milan", Groups: []string{"liqo:peers"}}
	controllers := &user.DefaultInfo{Name: "system:serviceaccount:liqo:federation-controller-manager"}
	const path = "/apis/federation.liqo.io/v1alpha1/namespaces/liqo-tenant-milan/resourceoffers"
	for _, test := range []struct {
		name      string
		limit     int
		requester user.Info
		query     string
		want      int
	}{
		{"a watch of a peer above the limit", 0, milan, "?watch=true", http.StatusTooManyRequests},
		{"a watch of a peer within the limit", 1, milan, "?watch=true", http.StatusTeapot},
		{"a list of a peer", 0, milan, "", http.StatusTeapot},
		{"a watch of a controller", 0, controllers, "?watch=true", http.StatusTeapot},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := NewConfig()
			config.MaxPeerWatches = test.limit
			generic := &config.Generic.Config
			generic.FeatureGate = utilfeature.DefaultFeatureGate
			generic.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(generic)
			generic.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
			generic.Authentication.Authenticator = authenticator.RequestFunc(
				func(*http.Request) (*authenticator.Response, bool, error) {
					return &authenticator.Response{User: test.requester}, true, nil
				})
			chain := generic.BuildHandlerChainFunc(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusTeapot)
			}), generic)
			recorder := httptest.NewRecorder()
			chain.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+test.query, nil))
			if recorder.Code != test.want {
				t.Errorf("status %d, want %d: %s", recorder.Code, test.want, recorder.Body)
			}
		})
	}
}
