// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"liqo.io/federation/controllers/clientca"
)

// Authorizer authorizes requests.
type Authorizer interface {
	// Allowed reports whether the user is authorized for the attributes. It fails if the API server does not respond.
	Allowed(ctx context.Context, requester user.Info, attributes authorizationv1.ResourceAttributes) (bool, error)
}

// Auth authenticates and authorizes requests to the kubelet API.
type Auth struct {
	// NodeName is the name of the node whose subresources requests are authorized for.
	NodeName      string
	Authenticator authenticator.Request
	Authorizer    Authorizer

	authority *clientca.Authority
}

// NewAuth returns an Auth that uses the local API server: it authenticates tokens by TokenReviews and client
// certificates by the cluster's CA, and authorizes by SubjectAccessReviews. It watches the ConfigMap with the CA until
// the context ends, and fails if that ConfigMap cannot be read.
func NewAuth(ctx context.Context, client kubernetes.Interface, nodeName string) (*Auth, error) {
	authority, err := clientca.New(ctx, client)
	if err != nil {
		return nil, err
	}
	authenticators := []authenticator.Request{
		bearertoken.New(newTokenReviews(client.AuthenticationV1().TokenReviews())),
	}
	if authority != nil {
		go authority.Run(ctx, 1)
		authenticators = append(authenticators, x509.NewDynamic(authority.VerifyOptions, x509.CommonNameUserConversion))
	}
	return &Auth{
		NodeName:      nodeName,
		Authenticator: union.New(authenticators...),
		Authorizer:    newAccessReviews(client.AuthorizationV1().SubjectAccessReviews()),
		authority:     authority,
	}, nil
}

// Ready returns nil, or the reason why clients cannot be authenticated yet.
func (a *Auth) Ready() error { return clientca.Loaded(a.authority) }

// Protect returns a handler that passes authorized requests to next and responds with an error to all other requests.
func (a *Auth) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		response, ok, err := a.Authenticator.AuthenticateRequest(withSource(r))
		if errors.Is(err, errTooManyReviews) {
			http.Error(w, errTooManyReviews.Error(), http.StatusTooManyRequests)
			return
		}
		if err != nil {
			logger.V(2).Info("Request was not authenticated", "err", err)
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		verb, subresources := rights(r)
		allowed, err := a.allowed(r.Context(), response.User, verb, subresources)
		if err != nil {
			logger.Error(err, "Request could not be authorized", "user", response.User.GetName())
			http.Error(w, "the API server could not authorize the request", http.StatusInternalServerError)
			return
		}
		if !allowed {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
				response.User.GetName(), verb, subresources), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowed reports whether the user is authorized for the verb on one of the node's subresources. It fails if the API
// server does not respond.
func (a *Auth) allowed(ctx context.Context, requester user.Info, verb string, subresources []string) (bool, error) {
	for _, subresource := range subresources {
		allowed, err := a.Authorizer.Allowed(ctx, requester, authorizationv1.ResourceAttributes{
			Verb:        verb,
			Version:     "v1",
			Resource:    "nodes",
			Subresource: subresource,
			Name:        a.NodeName,
		})
		if allowed || err != nil {
			return allowed, err
		}
	}
	return false, nil
}

// rights returns the verb that a request requires, and the subresources of the node of which one must be permitted.
// They are those of a kubelet, with one difference: exec, attach and port-forward always require the verb create, also
// over WebSocket, which starts with a GET request.
func rights(r *http.Request) (verb string, subresources []string) {
	verb = map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "exec", "attach", "portForward":
		return "create", []string{"proxy"}
	case "stats", "metrics":
		return verb, []string{first}
	case "pods":
		return verb, []string{first, "proxy"}
	}
	return verb, []string{"proxy"}
}
