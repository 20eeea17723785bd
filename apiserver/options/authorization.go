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
	// defaultCacheTTL is the time for which decisions of kube-apiserver are cached. A revoked
	// permission remains valid for this time.
	defaultCacheTTL = 10 * time.Second
	reviewTimeout   = 10 * time.Second
)

// AuthorizationOptions configures delegated authorization, by SubjectAccessReviews.
type AuthorizationOptions struct {
	// AllowCacheTTL is the time for which a decision to allow a request is cached. 0 disables the
	// cache.
	AllowCacheTTL time.Duration
	// DenyCacheTTL is the time for which a decision to deny a request is cached. 0 disables the cache.
	DenyCacheTTL time.Duration
}

func newAuthorizationOptions() *AuthorizationOptions {
	return &AuthorizationOptions{AllowCacheTTL: defaultCacheTTL, DenyCacheTTL: defaultCacheTTL}
}

func (o *AuthorizationOptions) validate() []error {
	if o.AllowCacheTTL < 0 || o.DenyCacheTTL < 0 {
		return []error{errors.New("--authorization-webhook-cache-authorized-ttl and " +
			"--authorization-webhook-cache-unauthorized-ttl: must not be negative")}
	}
	return nil
}

// authorizer returns an authorizer that delegates to the kube-apiserver of config. As in
// kube-apiserver, all users may get the health paths, and the group system:masters is permitted
// everything.
func (o *AuthorizationOptions) authorizer(config *rest.Config) (authorizer.Authorizer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = reviewTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for access reviews: %w", err)
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             o.AllowCacheTTL,
		DenyCacheTTL:              o.DenyCacheTTL,
		WebhookRetryBackoff:       genericoptions.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("creating the authorizer for access reviews: %w", err)
	}
	health, err := path.NewAuthorizer(server.HealthPaths)
	if err != nil {
		return nil, fmt.Errorf("creating the authorizer for health paths: %w", err)
	}
	return union.New(
		union.NamedAuthorizer{
			AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		},
		union.NamedAuthorizer{AuthorizerName: "health-paths", Authorizer: health},
		union.NamedAuthorizer{AuthorizerName: "access-reviews", Authorizer: server.AllNamesFirst(reviews)},
	)
}
