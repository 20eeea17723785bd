// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
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
	// Of the control plane each virtual node is one more to ask about.
	maxControlAnswers       = 1024
	controlReviewsPerSecond = 10
	controlReviewsAtOnce    = 100
	// Each place that somebody asks from has its own measure, so that one who shows
	// one token after the other is alone with that. It is forgotten with the place.
	sourceReviewsPerSecond = 2
	sourceReviewsAtOnce    = 50
	maxSources             = 1024
	// A token that was good is asked about again beside all others.
	provenTTL = time.Hour
)

// guard lets through who may read a path, as this cluster's API server says of
// the token that he shows. The handlers of k8s.io/apiserver do more, and cost
// more memory than an agent of every node may take.
type guard struct {
	kube kubernetes.Interface
	// audience is whom tokens have to be for; empty: this cluster's API server.
	audience string
	// answers are by the hash of path and token: the token itself is kept
	// nowhere.
	answers *cache.LRUExpireCache
	reviews *rate.Limiter
	// proven are the tokens that were good, and renewals what they are asked about
	// by; sources are the measures of those who are asked about first.
	proven, sources *cache.LRUExpireCache
	renewals        *rate.Limiter
}

func newGuard(kube kubernetes.Interface) *guard {
	return guardOf(kube, "", maxAnswers, reviewsPerSecond, reviewsAtOnce)
}

func guardOf(kube kubernetes.Interface, audience string, answers int, perSecond rate.Limit, atOnce int) *guard {
	return &guard{
		kube: kube, audience: audience, answers: cache.NewLRUExpireCache(answers),
		reviews: rate.NewLimiter(perSecond, atOnce), renewals: rate.NewLimiter(perSecond, atOnce),
		proven: cache.NewLRUExpireCache(answers), sources: cache.NewLRUExpireCache(maxSources),
	}
}

// ControlGuard tells, by an HTTP status, whether the bearer of a token may have
// the gateway connect to peers, who asks from somewhere. The token is for that
// alone.
func ControlGuard(kube kubernetes.Interface) func(ctx context.Context, from, token string) (int, error) {
	g := guardOf(kube, v1alpha1.ControlAudience, maxControlAnswers, controlReviewsPerSecond, controlReviewsAtOnce)
	return func(ctx context.Context, from, token string) (int, error) {
		return g.judge(ctx, from, token, v1alpha1.ControlPath)
	}
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
	return g.judge(r.Context(), SourceOf(r.RemoteAddr), token, r.URL.Path)
}

// SourceOf is where a request comes from: an IPv4 address, or the 64 bits of an
// IPv6 network, in which everybody may have any.
func SourceOf(address string) string {
	from, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	a := from.Addr().Unmap()
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a.WithZone(""), 64).Masked().String()
}

// mayAsk tells whether this cluster's API server is asked about a token now.
func (g *guard) mayAsk(key [sha256.Size]byte, from string) bool {
	if _, ok := g.proven.Get(key); ok {
		return g.renewals.Allow()
	}
	of, ok := g.sources.Get(from)
	if !ok {
		of = rate.NewLimiter(sourceReviewsPerSecond, sourceReviewsAtOnce)
	}
	g.sources.Add(from, of, provenTTL)
	return of.(*rate.Limiter).Allow() && g.reviews.Allow()
}

// judge is StatusOK where the bearer of a token may get a path.
func (g *guard) judge(ctx context.Context, from, token, path string) (int, error) {
	key := sha256.Sum256([]byte(path + " " + token))
	if known, ok := g.answers.Get(key); ok {
		return known.(int), nil
	}
	if !g.mayAsk(key, from) {
		return http.StatusTooManyRequests, nil
	}
	// No log line shows the token, whatever the client is told to tell.
	ctx = klog.NewContext(ctx, klog.Logger{})
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	asked := authenticationv1.TokenReviewSpec{Token: token}
	if g.audience != "" {
		asked.Audiences = []string{g.audience}
	}
	who, err := g.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: asked}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking whose a token is: %w", err)
	}
	if !who.Status.Authenticated || g.audience != "" && !slices.Contains(who.Status.Audiences, g.audience) {
		// It is not remembered: a token may be valid in a moment.
		return http.StatusUnauthorized, nil
	}
	allowed, err := g.allowed(ctx, who.Status.User, path)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	status, ttl := http.StatusForbidden, deniedTTL
	if allowed {
		status, ttl = http.StatusOK, allowedTTL
		g.proven.Add(key, true, provenTTL)
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
