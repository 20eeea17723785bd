// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/test/fakes"
)

// Every pod that reaches the kubelet API can send tokens. Their reviews are requests with the account that renews the
// Lease of the virtual node.
func TestUnknownTokensCauseFewReviews(t *testing.T) {
	kube, reviewed := fake.NewClientset(), 0
	fakes.React(kube, "create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		reviewed++
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == goodToken
		return true, review, nil
	})
	reviews := newTokenReviews(kube.AuthenticationV1().TokenReviews())
	authenticate := func(from, token string) (bool, error) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pods", nil)
		request.RemoteAddr = from
		_, ok, err := reviews.AuthenticateToken(withSource(request).Context(), token)
		return ok, err
	}
	for range 100 {
		if ok, err := authenticate("10.0.0.1:4711", "guess"); ok || err != nil {
			t.Fatalf("a rejected token: accepted %t, error %v", ok, err)
		}
	}
	if reviewed != 1 {
		t.Errorf("%d reviews of one rejected token, want one", reviewed)
	}
	var last error
	for i := range 1000 {
		_, last = authenticate("10.0.0.1:4711", fmt.Sprint("guess-", i))
	}
	if reviewed > 100 || !errors.Is(last, errTooManyReviews) {
		t.Errorf("%d reviews of 1000 tokens, the last with error %v", reviewed, last)
	}
	if ok, err := authenticate("10.0.0.2:4711", goodToken); !ok || err != nil {
		t.Errorf("a valid token of another client: accepted %t, error %v", ok, err)
	}
}
