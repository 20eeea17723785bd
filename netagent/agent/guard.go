// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reviewlimit"
)

const (
	reviewTimeout = 10 * time.Second
	// allowedTTL and deniedTTL are the times for which a decision is cached. They are the defaults of a kubelet for
	// authentication.webhook.cacheTTL and authorization.webhook.cacheUnauthorizedTTL.
	allowedTTL = 2 * time.Minute
	deniedTTL  = 30 * time.Second
	// maxDecisions bounds the cached decisions.
	maxDecisions = 64
	// reviewsPerSecond and reviewBurst limit the reviews of tokens that were not valid before.
	reviewsPerSecond = 1
	reviewBurst      = 10
	// The following limits apply to the control plane proxy, which has one client per virtual node.
	maxControlDecisions     = 1024
	controlReviewsPerSecond = 10
	controlReviewBurst      = 100
)

// guard authorizes requests by TokenReview and SubjectAccessReview. The handlers of k8s.io/apiserver do more, at
// a memory cost too high for an agent on every node.
type guard struct {
	kube kubernetes.Interface
	// audience is the audience that tokens must have; empty means the audience of the local API server.
	audience string
	// decisions holds HTTP statuses by hash of path and token. Tokens themselves are not stored.
	decisions *cache.LRUExpireCache
	limiter   *reviewlimit.Limiter
}

func newGuard(kube kubernetes.Interface) *guard {
	return newGuardFor(kube, "", maxDecisions, reviewsPerSecond, reviewBurst)
}

func newGuardFor(kube kubernetes.Interface, audience string, decisions int, perSecond rate.Limit, burst int) *guard {
	return &guard{
		kube: kube, audience: audience, decisions: cache.NewLRUExpireCache(decisions),
		limiter: reviewlimit.New(perSecond, burst, decisions),
	}
}

// ControlGuard returns a function that reports, as an HTTP status, whether the bearer of a token may open
// connections to peers through the gateway. Tokens need the audience v1alpha1.ControlAudience. Source is the
// client's address as returned by reviewlimit.SourceOf.
func ControlGuard(kube kubernetes.Interface) func(ctx context.Context, source, token string) (int, error) {
	g := newGuardFor(kube, v1alpha1.ControlAudience, maxControlDecisions, controlReviewsPerSecond, controlReviewBurst)
	return func(ctx context.Context, source, token string) (int, error) {
		return g.authorize(ctx, source, token, v1alpha1.ControlPath)
	}
}

// protect returns a handler that passes authorized requests to next, and responds to all other requests with an
// error.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := g.authorizeRequest(r)
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Authorizing request failed", "path", r.URL.Path)
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorizeRequest returns StatusOK if the request is authorized, and the status to respond with otherwise. It
// fails if the token or its access could not be reviewed.
func (g *guard) authorizeRequest(r *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	return g.authorize(r.Context(), reviewlimit.SourceOf(r.RemoteAddr), token, r.URL.Path)
}

// authorize returns StatusOK if the user of a token may send GET requests for a path, and the status to respond
// with otherwise. It fails if the token or its access could not be reviewed.
func (g *guard) authorize(ctx context.Context, source, token, path string) (int, error) {
	key := sha256.Sum256([]byte(path + " " + token))
	if status, ok := g.decisions.Get(key); ok {
		return status.(int), nil
	}
	if !g.limiter.Allow(key, source) {
		return http.StatusTooManyRequests, nil
	}
	// The client must not log the request, whose body holds the token, at any verbosity.
	ctx = klog.NewContext(ctx, klog.Logger{})
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if g.audience != "" {
		spec.Audiences = []string{g.audience}
	}
	review, err := g.kube.AuthenticationV1().
		TokenReviews().
		Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing token: %w", err)
	}
	if !review.Status.Authenticated || g.audience != "" && !slices.Contains(review.Status.Audiences, g.audience) {
		// Not cached: the token may become valid at any time.
		return http.StatusUnauthorized, nil
	}
	allowed, err := g.allowed(ctx, review.Status.User, path)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	status, ttl := http.StatusForbidden, deniedTTL
	if allowed {
		status, ttl = http.StatusOK, allowedTTL
		g.limiter.Valid(key)
	}
	g.decisions.Add(key, status, ttl)
	return status, nil
}

// allowed reports whether a user may send GET requests for a path. It fails if the SubjectAccessReview could not
// be created.
func (g *guard) allowed(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	for name, values := range user.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	review, err := g.kube.AuthorizationV1().
		SubjectAccessReviews().
		Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing access of %s: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
