// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestUnknownTokensAreRateLimitedPerSource(t *testing.T) {
	kube := fakeReviews(nil)
	g := newGuard(kube)
	g.newTokenLimiter = rate.NewLimiter(0, 2*sourceReviewBurst)
	statusOf := func(source, token string) int {
		t.Helper()
		status, err := g.authorize(t.Context(), source, token, "/metrics")
		if err != nil {
			t.Error(err)
		}
		return status
	}
	if got := statusOf("10.0.0.1", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("status for the valid token: %d", got)
	}
	for i := range 10 * sourceReviewBurst {
		statusOf("10.0.0.2", fmt.Sprint("guess-", i))
	}
	if got := statusOf("10.0.0.3", "token-of-mallory"); got != http.StatusForbidden {
		t.Errorf("status for another source: %d", got)
	}
	// An exhausted limit for new tokens does not affect tokens that were valid.
	g.newTokenLimiter = rate.NewLimiter(0, 0)
	g.decisions.Remove(sha256.Sum256([]byte("/metrics token-of-prometheus")))
	if got := statusOf("10.0.0.2", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("status for the valid token: %d", got)
	}
	if got := statusOf("10.0.0.4", "guess"); got != http.StatusTooManyRequests {
		t.Errorf("status for an unknown token: %d", got)
	}
}

// A client can use every address of its IPv6 network, so that the limit applies to the network.
func TestSourcesInOneIPv6NetworkShareALimit(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:4711":          "10.0.0.1",
		"[::ffff:10.0.0.1]:4711": "10.0.0.1",
		"[fd00:1:2:3::4]:4711":   "fd00:1:2:3::/64",
		"[fe80::1%eth0]:4711":    "fe80::/64",
		"not-an-address":         "not-an-address",
	} {
		if got := SourceOf(address); got != want {
			t.Errorf("SourceOf(%s) = %s, want %s", address, got, want)
		}
	}
	g := newGuard(fakeReviews(nil))
	g.newTokenLimiter = rate.NewLimiter(0, 2*sourceReviewBurst)
	statusOf := func(from string, i int) int {
		t.Helper()
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.RemoteAddr = from
		request.Header.Set("Authorization", fmt.Sprint("Bearer guess-", from, i))
		status, err := g.authorizeRequest(request)
		if err != nil {
			t.Error(err)
		}
		return status
	}
	for i := range 2 * sourceReviewBurst {
		statusOf(fmt.Sprintf("[fd00:1:2:3::%x]:4711", i), i)
	}
	if got := statusOf("[fd00:1:2:3::ffff]:4711", 0); got != http.StatusTooManyRequests {
		t.Errorf("status for another address of the network: %d", got)
	}
	if got := statusOf("[fd00:1:2:4::1]:4711", 0); got == http.StatusTooManyRequests {
		t.Error("another network is rate limited")
	}
}

func TestControlGuardRequiresTheControlAudience(t *testing.T) {
	for name, test := range map[string]struct {
		audiences []string // of the token
		allowed   bool
		want      int
	}{
		"for the control plane":               {[]string{"federation-control"}, true, http.StatusOK},
		"without permission":                  {[]string{"federation-control"}, false, http.StatusForbidden},
		"for the API server":                  {[]string{"https://kubernetes.default.svc"}, true, http.StatusUnauthorized},
		"of an API server without audiences":  {nil, true, http.StatusUnauthorized},
		"for the control plane among others ": {[]string{"another", "federation-control"}, true, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				review.Status = authenticationv1.TokenReviewStatus{
					Authenticated: true,
					User:          authenticationv1.UserInfo{Username: "kubelet"},
				}
				for _, audience := range review.Spec.Audiences {
					if slices.Contains(test.audiences, audience) {
						review.Status.Audiences = append(review.Status.Audiences, audience)
					}
				}
				return true, review, nil
			})
			kube.PrependReactor(
				"create",
				"subjectaccessreviews",
				func(action clienttesting.Action) (bool, runtime.Object, error) {
					review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
					attributes := review.Spec.NonResourceAttributes
					review.Status.Allowed = test.allowed && review.Spec.User == "kubelet" && attributes.Path == "/liqo/control" &&
						attributes.Verb == "get"
					return true, review, nil
				},
			)
			if got, err := ControlGuard(kube)(t.Context(), "10.0.0.1", "token"); err != nil || got != test.want {
				t.Errorf("%d, %v; want %d", got, err, test.want)
			}
		})
	}
}
