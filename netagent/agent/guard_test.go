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

func TestAStrangerIsAskedAboutAtHisOwnExpense(t *testing.T) {
	kube := reviewing(nil)
	g := newGuard(kube)
	g.reviews = rate.NewLimiter(0, 2*sourceReviewsAtOnce)
	judge := func(from, token string) int {
		t.Helper()
		status, err := g.judge(t.Context(), from, token, "/metrics")
		if err != nil {
			t.Error(err)
		}
		return status
	}
	if got := judge("10.0.0.1", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("a good token is answered %d", got)
	}
	for i := range 10 * sourceReviewsAtOnce {
		judge("10.0.0.2", fmt.Sprint("guess-", i))
	}
	if got := judge("10.0.0.3", "token-of-mallory"); got != http.StatusForbidden {
		t.Errorf("somebody else is answered %d", got)
	}
	// Whoever has used up what strangers share, a good token is asked about again.
	g.reviews = rate.NewLimiter(0, 0)
	g.answers.Remove(sha256.Sum256([]byte("/metrics token-of-prometheus")))
	if got := judge("10.0.0.2", "token-of-prometheus"); got != http.StatusOK {
		t.Errorf("the good token is answered %d", got)
	}
	if got := judge("10.0.0.4", "guess"); got != http.StatusTooManyRequests {
		t.Errorf("a stranger is answered %d", got)
	}
}

// Whoever has one address of an IPv6 network has all of them.
func TestStrangersOfOneNetworkAreOne(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:4711":          "10.0.0.1",
		"[::ffff:10.0.0.1]:4711": "10.0.0.1",
		"[fd00:1:2:3::4]:4711":   "fd00:1:2:3::/64",
		"[fe80::1%eth0]:4711":    "fe80::/64",
		"somewhere":              "somewhere",
	} {
		if got := SourceOf(address); got != want {
			t.Errorf("%s comes from %s, and not from %s", address, got, want)
		}
	}
	g := newGuard(reviewing(nil))
	g.reviews = rate.NewLimiter(0, 2*sourceReviewsAtOnce)
	ask := func(from string, i int) int {
		t.Helper()
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.RemoteAddr = from
		request.Header.Set("Authorization", fmt.Sprint("Bearer guess-", from, i))
		status, err := g.verdict(request)
		if err != nil {
			t.Error(err)
		}
		return status
	}
	for i := range 2 * sourceReviewsAtOnce {
		ask(fmt.Sprintf("[fd00:1:2:3::%x]:4711", i), i)
	}
	if got := ask("[fd00:1:2:3::ffff]:4711", 0); got != http.StatusTooManyRequests {
		t.Errorf("another one of the network is answered %d", got)
	}
	if got := ask("[fd00:1:2:4::1]:4711", 0); got == http.StatusTooManyRequests {
		t.Error("another network is not asked about")
	}
}

func TestOnlyTokensForTheControlPlaneLetIntoIt(t *testing.T) {
	for name, test := range map[string]struct {
		audiences []string // of the token
		may       bool
		want      int
	}{
		"for the control plane":               {[]string{"liqo-control"}, true, http.StatusOK},
		"of somebody who may not":             {[]string{"liqo-control"}, false, http.StatusForbidden},
		"for the API server":                  {[]string{"https://kubernetes.default.svc"}, true, http.StatusUnauthorized},
		"where audiences are not heeded":      {nil, true, http.StatusUnauthorized},
		"for the control plane among others ": {[]string{"another", "liqo-control"}, true, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "kubelet"}}
				for _, audience := range review.Spec.Audiences {
					if slices.Contains(test.audiences, audience) {
						review.Status.Audiences = append(review.Status.Audiences, audience)
					}
				}
				return true, review, nil
			})
			kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				asked := review.Spec.NonResourceAttributes
				review.Status.Allowed = test.may && review.Spec.User == "kubelet" && asked.Path == "/liqo/control" && asked.Verb == "get"
				return true, review, nil
			})
			if got, err := ControlGuard(kube)(t.Context(), "10.0.0.1", "token"); err != nil || got != test.want {
				t.Errorf("%d, %v; want %d", got, err, test.want)
			}
		})
	}
}
