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

// The delegating authenticator and authorizer of k8s.io/apiserver do the same,
// and bring CEL, gRPC and tracing exporters with them: more memory than all of
// a virtual kubelet may take.

const (
	reviewTimeout = 10 * time.Second
	// The defaults of a kubelet.
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// maxAnswers bounds the answers that are remembered of each kind.
	maxAnswers = 1024
)

// tokenReviews tells whose a token is by asking this cluster. Refusals are not
// remembered: a token may be valid in a moment.
type tokenReviews struct {
	client authenticationclient.TokenReviewInterface
	known  *cache.LRUExpireCache
}

func newTokenReviews(client authenticationclient.TokenReviewInterface) authenticator.Token {
	return &tokenReviews{client: client, known: cache.NewLRUExpireCache(maxAnswers)}
}

// AuthenticateToken tells whose a token is.
func (t *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	// The token itself is kept nowhere.
	key := sha256.Sum256([]byte(token))
	if known, ok := t.known.Get(key); ok {
		return &authenticator.Response{User: known.(user.Info)}, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := t.client.Create(
		ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{},
	)
	if err != nil {
		return nil, false, fmt.Errorf("asking whose a token is: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, false, nil
	}
	who := &user.DefaultInfo{
		Name: review.Status.User.Username, UID: review.Status.User.UID,
		Groups: review.Status.User.Groups, Extra: map[string][]string{},
	}
	for name, values := range review.Status.User.Extra {
		who.Extra[name] = values
	}
	t.known.Add(key, user.Info(who), tokenTTL)
	return &authenticator.Response{User: who}, true, nil
}

// accessReviews tells what somebody may do by asking this cluster.
type accessReviews struct {
	client authorizationclient.SubjectAccessReviewInterface
	known  *cache.LRUExpireCache
}

func newAccessReviews(client authorizationclient.SubjectAccessReviewInterface) *accessReviews {
	return &accessReviews{client: client, known: cache.NewLRUExpireCache(maxAnswers)}
}

// Allowed tells whether somebody may do something.
func (a *accessReviews) Allowed(
	ctx context.Context,
	who user.Info,
	what authorizationv1.ResourceAttributes,
) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), ResourceAttributes: &what,
		Extra: map[string]authorizationv1.ExtraValue{},
	}
	for name, values := range who.GetExtra() {
		spec.Extra[name] = values
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	if known, ok := a.known.Get(string(key)); ok {
		return known.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking what %s may do: %w", who.GetName(), err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	ttl := deniedTTL
	if allowed {
		ttl = allowedTTL
	}
	a.known.Add(string(key), allowed, ttl)
	return allowed, nil
}
