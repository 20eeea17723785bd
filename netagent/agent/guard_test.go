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

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/apiserver/reviewlimit"
	"liqo.io/federation/test/fakes"
)

func TestUnknownTokensAreRateLimitedPerSource(t *testing.T) {
	g := newGuard(fakeReviews(nil))
	g.limiter = reviewlimit.New(0, 1000, 10)
	statusOf := func(from, token string) int {
		t.Helper()
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.RemoteAddr = from
		request.Header.Set("Authorization", "Bearer "+token)
		status, err := g.authorizeRequest(request)
		if err != nil {
			t.Error(err)
		}
		return status
	}
	if got := statusOf("10.0.0.1:4711", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("status for the valid token: %d", got)
	}
	var last int
	for i := range 100 {
		last = statusOf(fmt.Sprintf("[fd00:1:2:3::%x]:4711", i), fmt.Sprint("guess-", i))
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("status for the last of many tokens: %d", last)
	}
	if got := statusOf("[fd00:1:2:4::1]:4711", "token-of-mallory"); got != http.StatusForbidden {
		t.Errorf("status for another source: %d", got)
	}
	// Tokens that were valid are exempt from the limit of their source.
	g.decisions.Remove(sha256.Sum256([]byte("/metrics token-of-prometheus")))
	if got := statusOf("[fd00:1:2:3::1]:4711", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("status for the valid token: %d", got)
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
			fakes.React(kube, "create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
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
			fakes.React(
				kube,
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
