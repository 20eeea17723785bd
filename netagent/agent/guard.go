// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const (
	reviewTimeout = 10 * time.Second
	// The defaults of a kubelet.
	allowedTTL = 2 * time.Minute
	deniedTTL  = 30 * time.Second
	// maxAnswers bounds the answers that are remembered.
	maxAnswers = 64
	// Whoever is on the node has this cluster asked so often a second, and so
	// many times at once: the agent's own requests come first.
	reviewsPerSecond = 1
	reviewsAtOnce    = 10
)

// guard lets through who may read a path, as this cluster's API server says of
// the token that he shows. The handlers of k8s.io/apiserver do more, and cost
// more memory than an agent of every node may take.
type guard struct {
	kube kubernetes.Interface
	// answers are by the hash of path and token: the token itself is kept
	// nowhere.
	answers *cache.LRUExpireCache
	reviews *rate.Limiter
}

func newGuard(kube kubernetes.Interface) *guard {
	return &guard{kube: kube, answers: cache.NewLRUExpireCache(maxAnswers), reviews: rate.NewLimiter(reviewsPerSecond, reviewsAtOnce)}
}

// protect passes on the requests that are allowed, and answers all others.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := g.verdict(r)
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "A request was not answered", "path", r.URL.Path)
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// verdict is StatusOK where a request is allowed, else what to answer.
func (g *guard) verdict(r *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := sha256.Sum256([]byte(r.URL.Path + " " + token))
	if known, ok := g.answers.Get(key); ok {
		return known.(int), nil
	}
	if !g.reviews.Allow() {
		return http.StatusTooManyRequests, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	who, err := g.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking whose a token is: %w", err)
	}
	if !who.Status.Authenticated {
		// It is not remembered: a token may be valid in a moment.
		return http.StatusUnauthorized, nil
	}
	allowed, err := g.allowed(ctx, who.Status.User, r.URL.Path)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	status, ttl := http.StatusForbidden, deniedTTL
	if allowed {
		status, ttl = http.StatusOK, allowedTTL
	}
	g.answers.Add(key, status, ttl)
	return status, nil
}

// allowed tells whether somebody may read a path.
func (g *guard) allowed(ctx context.Context, who authenticationv1.UserInfo, path string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	for name, values := range who.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	review, err := g.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking what %s may do: %w", who.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
