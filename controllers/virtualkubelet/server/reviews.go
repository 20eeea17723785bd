// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// tokenReviews and accessReviews replace the delegating authenticator and authorizer of k8s.io/apiserver, which link
// CEL, gRPC and tracing exporters and use more memory than a virtual kubelet may.

const (
	reviewTimeout = 10 * time.Second
	// The times for which responses are cached are the defaults of a kubelet.
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// maxReviews is the maximum number of cached responses, for tokens and for requests each.
	maxReviews = 1024
)

// tokenReviews authenticates tokens by TokenReviews of the local cluster. Rejections are not cached, since a rejected
// token may become valid.
type tokenReviews struct {
	client authenticationclient.TokenReviewInterface
	cached *cache.LRUExpireCache
}

func newTokenReviews(client authenticationclient.TokenReviewInterface) authenticator.Token {
	return &tokenReviews{client: client, cached: cache.NewLRUExpireCache(maxReviews)}
}

// AuthenticateToken implements authenticator.Token. It returns false for a token that the API server rejects, and fails
// if the TokenReview cannot be created.
func (t *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	// The cache must not contain tokens, so it has their hashes.
	key := sha256.Sum256([]byte(token))
	if cached, ok := t.cached.Get(key); ok {
		return &authenticator.Response{User: cached.(user.Info)}, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := t.client.Create(
		ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{},
	)
	if err != nil {
		return nil, false, fmt.Errorf("creating TokenReview: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, false, nil
	}
	requester := &user.DefaultInfo{
		Name: review.Status.User.Username, UID: review.Status.User.UID,
		Groups: review.Status.User.Groups, Extra: map[string][]string{},
	}
	for name, values := range review.Status.User.Extra {
		requester.Extra[name] = values
	}
	t.cached.Add(key, user.Info(requester), tokenTTL)
	return &authenticator.Response{User: requester}, true, nil
}

// accessReviews authorizes requests by SubjectAccessReviews of the local cluster.
type accessReviews struct {
	client authorizationclient.SubjectAccessReviewInterface
	cached *cache.LRUExpireCache
}

func newAccessReviews(client authorizationclient.SubjectAccessReviewInterface) *accessReviews {
	return &accessReviews{client: client, cached: cache.NewLRUExpireCache(maxReviews)}
}

// Allowed implements Authorizer. It fails if the SubjectAccessReview cannot be created.
func (a *accessReviews) Allowed(
	ctx context.Context,
	requester user.Info,
	attributes authorizationv1.ResourceAttributes,
) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: requester.GetName(), UID: requester.GetUID(), Groups: requester.GetGroups(),
		ResourceAttributes: &attributes,
		Extra:              map[string]authorizationv1.ExtraValue{},
	}
	for name, values := range requester.GetExtra() {
		spec.Extra[name] = values
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	if cached, ok := a.cached.Get(string(key)); ok {
		return cached.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("creating SubjectAccessReview for %s: %w", requester.GetName(), err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	ttl := deniedTTL
	if allowed {
		ttl = allowedTTL
	}
	a.cached.Add(string(key), allowed, ttl)
	return allowed, nil
}
