// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
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

// Authorizer tells whether somebody may do something.
type Authorizer interface {
	Allowed(ctx context.Context, who user.Info, what authorizationv1.ResourceAttributes) (bool, error)
}

// Auth decides who may ask what, by asking this cluster's API server.
type Auth struct {
	// NodeName is the node that the rights are about.
	NodeName string
	// Authenticator tells who asks; Authorizer whether they may.
	Authenticator authenticator.Request
	Authorizer    Authorizer

	authority *clientca.Authority
}

// NewAuth makes the delegated authentication and authorization of a node: by
// client certificates of the cluster's authority, which it follows until the
// context ends, by TokenReviews and by SubjectAccessReviews.
func NewAuth(ctx context.Context, client kubernetes.Interface, nodeName string) (*Auth, error) {
	authority, err := clientca.New(ctx, client)
	if err != nil {
		return nil, err
	}
	known := []authenticator.Request{bearertoken.New(newTokenReviews(client.AuthenticationV1().TokenReviews()))}
	if authority != nil {
		go authority.Run(ctx, 1)
		known = append(known, x509.NewDynamic(authority.VerifyOptions, x509.CommonNameUserConversion))
	}
	return &Auth{
		NodeName:      nodeName,
		Authenticator: union.New(known...),
		Authorizer:    newAccessReviews(client.AuthorizationV1().SubjectAccessReviews()),
		authority:     authority,
	}, nil
}

// Ready says why clients cannot be told apart yet, or nil.
func (a *Auth) Ready() error { return clientca.Loaded(a.authority) }

// Protect lets requests through to the next handler that this cluster allows.
func (a *Auth) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		answer, ok, err := a.Authenticator.AuthenticateRequest(r)
		if err != nil {
			logger.V(2).Info("Request was not authenticated", "err", err)
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		attributes := a.attributes(r)
		allowed, err := a.Authorizer.Allowed(r.Context(), answer.User, attributes)
		if err != nil {
			logger.Error(err, "Asking whether a request is allowed failed", "user", answer.User.GetName())
			http.Error(w, "the API server could not be asked whether this is allowed", http.StatusInternalServerError)
			return
		}
		if !allowed {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)",
				answer.User.GetName(), attributes.Verb, attributes.Subresource), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// attributes are what a kubelet asks for, but for one thing: to enter a pod is
// always to create, also where a WebSocket begins as a GET.
func (a *Auth) attributes(r *http.Request) authorizationv1.ResourceAttributes {
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
		http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	subresource := "proxy"
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "exec", "attach", "portForward":
		verb = "create"
	case "stats", "metrics":
		subresource = first
	}
	return authorizationv1.ResourceAttributes{
		Verb:        verb,
		Version:     "v1",
		Resource:    "nodes",
		Subresource: subresource,
		Name:        a.NodeName,
	}
}
