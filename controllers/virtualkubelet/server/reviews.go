// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"liqo.io/federation/apiserver/reviewlimit"
)

// tokenReviews and accessReviews replace the delegating authenticator and authorizer of k8s.io/apiserver, which link
// CEL, gRPC and tracing exporters and use more memory than a virtual kubelet may.

const (
	reviewTimeout = 10 * time.Second
	// The times for which the results of reviews are cached have the defaults of a kubelet.
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// rejectedTTL is the time for which a rejected token is not reviewed again. It is short, because a rejected token
	// may become valid.
	rejectedTTL = 10 * time.Second
	// reviewsPerSecond and reviewBurst limit the reviews of tokens that were valid within the last hour, and separately
	// the reviews of all other tokens.
	reviewsPerSecond = 10
	reviewBurst      = 100
	// maxReviews is the maximum number of cached results of TokenReviews, and of SubjectAccessReviews.
	maxReviews = 1024
)

// errTooManyReviews is returned for a token that is not reviewed, because too many tokens of its client, or of all
// clients together, were reviewed in the last seconds.
var errTooManyReviews = errors.New("too many unknown tokens: try again later")

// tokenReviews authenticates tokens by TokenReviews of the local cluster.
type tokenReviews struct {
	client authenticationclient.TokenReviewInterface
	// cached has a user.Info for each accepted token, and nil for a rejected one.
	cached  *cache.LRUExpireCache
	limiter *reviewlimit.Limiter
}

func newTokenReviews(client authenticationclient.TokenReviewInterface) authenticator.Token {
	return &tokenReviews{
		client: client, cached: cache.NewLRUExpireCache(maxReviews),
		limiter: reviewlimit.New(reviewsPerSecond, reviewBurst, maxReviews),
	}
}

// AuthenticateToken implements authenticator.Token. It returns false for a token that the API server rejects, and fails
// with errTooManyReviews or if the TokenReview cannot be created. The context must have the source of the request, see
// withSource.
func (t *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	// The cache must not contain tokens, so it has their hashes.
	key := sha256.Sum256([]byte(token))
	if cached, ok := t.cached.Get(key); ok {
		requester, accepted := cached.(user.Info)
		return &authenticator.Response{User: requester}, accepted, nil
	}
	if !t.limiter.Allow(key, sourceFrom(ctx)) {
		return nil, false, errTooManyReviews
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
		t.cached.Add(key, nil, rejectedTTL)
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
	t.limiter.Valid(key)
	return &authenticator.Response{User: requester}, true, nil
}

// sourceKey is the key of the source of a request in its context.
type sourceKey struct{}

func withSource(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), sourceKey{}, reviewlimit.SourceOf(r.RemoteAddr)))
}

func sourceFrom(ctx context.Context) string {
	source, _ := ctx.Value(sourceKey{}).(string)
	return source
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
