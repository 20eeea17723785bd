// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/test/fakes"
)

// fakeReviews returns an API server that reviews tokens: prometheus may get /metrics, mallory may not, and any
// other token is invalid. Reviews fail with failure unless that is nil.
func fakeReviews(failure error) *fake.Clientset {
	kube := fake.NewClientset()
	fakes.React(kube, "create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		switch review.Spec.Token {
		case "token-of-prometheus", "token-of-mallory":
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{
				Username: strings.TrimPrefix(review.Spec.Token, "token-of-"), Groups: []string{"system:authenticated"},
				Extra: map[string]authenticationv1.ExtraValue{"node": {"rome-1"}},
			}
		}
		return true, review, failure
	})
	fakes.React(kube, "create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		attributes := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && review.Spec.Groups[0] == "system:authenticated" &&
			review.Spec.Extra["node"][0] == "rome-1" &&
			review.Spec.ResourceAttributes == nil &&
			attributes.Path == "/metrics" &&
			attributes.Verb == "get"
		return true, review, nil
	})
	return kube
}

func healthy() error { return nil }

func get(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	request, response := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	h.ServeHTTP(response, request)
	return response
}

func TestMetricsRequireAuthorization(t *testing.T) {
	for _, test := range []struct {
		name, method, path, authorization string
		failure                           error
		want                              int
		reviews                           int
	}{
		{name: "a probe", path: "/livez", want: http.StatusOK},
		{name: "another probe", path: "/readyz", want: http.StatusServiceUnavailable},
		{name: "no credentials", path: "/metrics", want: http.StatusUnauthorized},
		{
			name: "basic authentication", path: "/metrics", authorization: "Basic cHJvbWV0aGV1czpwcm9tZXRoZXVz",
			want: http.StatusUnauthorized,
		},
		{name: "an empty token", path: "/metrics", authorization: "Bearer ", want: http.StatusUnauthorized},
		{
			name: "an invalid token", path: "/metrics", authorization: "Bearer guessed", want: http.StatusUnauthorized,
			reviews: 1,
		},
		{
			name: "a token without permission", path: "/metrics", authorization: "Bearer token-of-mallory",
			want: http.StatusForbidden, reviews: 2,
		},
		{
			name: "a token with permission", path: "/metrics", authorization: "Bearer token-of-prometheus",
			want: http.StatusOK, reviews: 2,
		},
		{
			name: "a token with permission, scheme in lower case", path: "/metrics",
			authorization: "bearer token-of-prometheus", want: http.StatusOK, reviews: 2,
		},
		{
			name: "failing review", path: "/metrics", authorization: "Bearer token-of-prometheus",
			failure: errors.New("unavailable"), want: http.StatusInternalServerError, reviews: 1,
		},
		{
			name: "an unknown path", path: "/debug/pprof/", authorization: "Bearer token-of-prometheus",
			want: http.StatusNotFound,
		},
		{
			name: "an unsupported method", method: http.MethodPost, path: "/metrics",
			authorization: "Bearer token-of-prometheus", want: http.StatusMethodNotAllowed,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := fakeReviews(test.failure)
			if test.method == "" {
				test.method = http.MethodGet
			}
			response := get(
				handler(kube, healthy, func() error { return errors.New("not yet") }),
				test.method,
				test.path,
				test.authorization,
			)
			if response.Code != test.want || len(kube.Actions()) != test.reviews {
				t.Errorf("%d after %d reviews: %s", response.Code, len(kube.Actions()), response.Body)
			}
			if has := strings.Contains(
				response.Body.String(), "go_goroutines",
			); has != (test.path == "/metrics" && test.want == http.StatusOK) {
				t.Errorf("response contains metrics: %t", has)
			}
		})
	}
}

func TestTokenReviewsAreRateLimited(t *testing.T) {
	kube := fakeReviews(nil)
	h := handler(kube, healthy, healthy)
	for range 50 {
		if response := get(h, http.MethodGet, "/metrics", "Bearer token-of-prometheus"); response.Code != http.StatusOK {
			t.Fatalf("status for the valid token: %d", response.Code)
		}
	}
	if reviews := len(kube.Actions()); reviews != 2 {
		t.Errorf("%d reviews of one token", reviews)
	}
	kube.ClearActions()
	for range 50 {
		get(h, http.MethodGet, "/metrics", "Bearer guessed")
	}
	if reviews := len(kube.Actions()); reviews >= 50 {
		t.Errorf("%d reviews of an invalid token", reviews)
	}
	if response := get(h, http.MethodGet, "/metrics", "Bearer token-of-prometheus"); response.Code != http.StatusOK {
		t.Errorf("status for the valid token: %d", response.Code)
	}
}

func TestAgentsServeTLSOnly(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), listener, handler(fakeReviews(nil), healthy, healthy)) }()
	// Like a kubelet's probes, the client does not verify the certificate.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for scheme, want := range map[string]int{"https": http.StatusOK, "http": http.StatusBadRequest} {
		request, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodGet,
			scheme+"://"+listener.Addr().String()+"/livez",
			nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("%s: %s %q, %v", scheme, response.Status, body, err)
		}
	}
	select {
	case err := <-served:
		t.Errorf("serve returned %v", err)
	default:
	}
}

func TestAgentsListenOnLoopbackOnly(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:5875": true, "[::1]:5875": true, "0.0.0.0:5875": false, ":5875": false,
		"192.0.2.1:5875": false, "localhost:5875": false, "127.0.0.1": false,
	} {
		if err := loopback(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
