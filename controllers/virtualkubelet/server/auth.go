// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	// The ConfigMap where a cluster says by which authority its API server's
	// clients are known.
	authenticationConfigMap = "extension-apiserver-authentication"
	clientCAKey             = "client-ca-file"

	reviewTimeout = 10 * time.Second
	// The defaults of a kubelet.
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
)

// Auth decides who may ask what, by asking this cluster's API server.
type Auth struct {
	// NodeName is the node that the rights are about.
	NodeName string
	// Authenticator tells who asks; Authorizer whether they may.
	Authenticator authenticator.Request
	Authorizer    authorizer.UnconditionalAuthorizer
}

// NewAuth makes the delegated authentication and authorization of a node: by
// client certificates of the cluster's authority, which it follows until the
// context ends, by TokenReviews and by SubjectAccessReviews.
func NewAuth(ctx context.Context, client kubernetes.Interface, nodeName string) (*Auth, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca",
		metav1.NamespaceSystem, authenticationConfigMap, clientCAKey, client)
	if err != nil {
		return nil, err
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationConfigMap, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("the kubelet's API cannot tell clients apart without the authority in ConfigMap %s/%s: %w",
			metav1.NamespaceSystem, authenticationConfigMap, err)
	}
	go ca.Run(ctx, 1)

	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: .2, Steps: 4}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                backoff,
		CacheTTL:                           tokenTTL,
		ClientCertificateCAContentProvider: ca,
	}.New()
	if err != nil {
		return nil, err
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             allowedTTL,
		DenyCacheTTL:              deniedTTL,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, err
	}
	return &Auth{NodeName: nodeName, Authenticator: authn, Authorizer: authz}, nil
}

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
		attributes := a.attributes(answer.User, r)
		decision, _, err := a.Authorizer.Authorize(r.Context(), attributes)
		if err != nil {
			logger.Error(err, "Asking whether a request is allowed failed", "user", answer.User.GetName())
			http.Error(w, "the API server could not be asked whether this is allowed", http.StatusInternalServerError)
			return
		}
		if decision != authorizer.DecisionAllow {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)",
				answer.User.GetName(), attributes.GetVerb(), attributes.GetSubresource()), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// attributes are what a kubelet asks for, but for one thing: to enter a pod is
// always to create, also where a WebSocket begins as a GET.
func (a *Auth) attributes(who user.Info, r *http.Request) authorizer.Attributes {
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
	return authorizer.AttributesRecord{
		User: who, Verb: verb, APIVersion: "v1", Resource: "nodes", Subresource: subresource,
		Name: a.NodeName, ResourceRequest: true, Path: r.URL.Path,
	}
}
