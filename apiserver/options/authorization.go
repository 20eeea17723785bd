// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/server"
)

const (
	// defaultCacheTTL is how long answers of kube-apiserver are remembered:
	// a right that was taken away lasts as long.
	defaultCacheTTL = 10 * time.Second
	reviewTimeout   = 10 * time.Second
)

// AuthorizationOptions says how kube-apiserver is asked what somebody may do.
type AuthorizationOptions struct {
	// AllowCacheTTL is how long to remember that something is allowed.
	AllowCacheTTL time.Duration
	// DenyCacheTTL is how long to remember that something is refused.
	DenyCacheTTL time.Duration
}

func newAuthorizationOptions() *AuthorizationOptions {
	return &AuthorizationOptions{AllowCacheTTL: defaultCacheTTL, DenyCacheTTL: defaultCacheTTL}
}

func (o *AuthorizationOptions) validate() []error {
	if o.AllowCacheTTL < 0 || o.DenyCacheTTL < 0 {
		return []error{errors.New("--authorization-webhook-cache-authorized-ttl and --authorization-webhook-cache-unauthorized-ttl: must not be negative")}
	}
	return nil
}

// authorizer asks the cluster that config leads to. Health paths are open to
// all, and masters may do everything, as in kube-apiserver itself.
func (o *AuthorizationOptions) authorizer(config *rest.Config) (authorizer.Authorizer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = reviewTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for access reviews: %w", err)
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             o.AllowCacheTTL,
		DenyCacheTTL:              o.DenyCacheTTL,
		WebhookRetryBackoff:       genericoptions.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authorizer that asks for access reviews: %w", err)
	}
	health, err := path.NewAuthorizer(server.HealthPaths)
	if err != nil {
		return nil, fmt.Errorf("making the authorizer for health paths: %w", err)
	}
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "health-paths", Authorizer: health},
		union.NamedAuthorizer{AuthorizerName: "access-reviews", Authorizer: server.AllNamesFirst(reviews)},
	)
}
