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
)

// reviewing is a cluster that knows two tokens, of whom one may read metrics.
func reviewing(failure error) *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
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
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && review.Spec.Groups[0] == "system:authenticated" && review.Spec.Extra["node"][0] == "rome-1" &&
			review.Spec.ResourceAttributes == nil && what.Path == "/metrics" && what.Verb == "get"
		return true, review, nil
	})
	return kube
}

func well() error { return nil }

func get(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	request, answer := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	h.ServeHTTP(answer, request)
	return answer
}

func TestAgentsTellTheirMetricsToWhoMayReadThem(t *testing.T) {
	for _, test := range []struct {
		name, method, path, authorization string
		failure                           error
		want                              int
		reviews                           int
	}{
		{name: "a probe", path: "/livez", want: http.StatusOK},
		{name: "another probe", path: "/readyz", want: http.StatusServiceUnavailable},
		{name: "nobody", path: "/metrics", want: http.StatusUnauthorized},
		{name: "a password", path: "/metrics", authorization: "Basic cHJvbWV0aGV1czpwcm9tZXRoZXVz", want: http.StatusUnauthorized},
		{name: "an empty token", path: "/metrics", authorization: "Bearer ", want: http.StatusUnauthorized},
		{name: "a stranger", path: "/metrics", authorization: "Bearer guessed", want: http.StatusUnauthorized, reviews: 1},
		{name: "somebody", path: "/metrics", authorization: "Bearer token-of-mallory", want: http.StatusForbidden, reviews: 2},
		{name: "who may", path: "/metrics", authorization: "Bearer token-of-prometheus", want: http.StatusOK, reviews: 2},
		{name: "who may, in another case", path: "/metrics", authorization: "bearer token-of-prometheus", want: http.StatusOK, reviews: 2},
		{name: "who may, but nobody knows", path: "/metrics", authorization: "Bearer token-of-prometheus", failure: errors.New("away"), want: http.StatusInternalServerError, reviews: 1},
		{name: "what is not there", path: "/debug/pprof/", authorization: "Bearer token-of-prometheus", want: http.StatusNotFound},
		{name: "what is not to be read", method: http.MethodPost, path: "/metrics", authorization: "Bearer token-of-prometheus", want: http.StatusMethodNotAllowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := reviewing(test.failure)
			if test.method == "" {
				test.method = http.MethodGet
			}
			answer := get(handler(kube, well, func() error { return errors.New("not yet") }), test.method, test.path, test.authorization)
			if answer.Code != test.want || len(kube.Actions()) != test.reviews {
				t.Errorf("%d after %d reviews: %s", answer.Code, len(kube.Actions()), answer.Body)
			}
			if has := strings.Contains(answer.Body.String(), "go_goroutines"); has != (test.path == "/metrics" && test.want == http.StatusOK) {
				t.Errorf("metrics are told: %t", has)
			}
		})
	}
}

func TestStrangersDoNotHaveTheClusterAskedWithoutAnEnd(t *testing.T) {
	kube := reviewing(nil)
	h := handler(kube, well, well)
	for range 50 {
		if answer := get(h, http.MethodGet, "/metrics", "Bearer token-of-prometheus"); answer.Code != http.StatusOK {
			t.Fatalf("who may read them is answered %d", answer.Code)
		}
	}
	if asked := len(kube.Actions()); asked != 2 {
		t.Errorf("of one token the cluster is asked %d times", asked)
	}
	kube.ClearActions()
	for range 50 {
		get(h, http.MethodGet, "/metrics", "Bearer guessed")
	}
	if asked := len(kube.Actions()); asked >= 50 {
		t.Errorf("a stranger had the cluster asked %d times", asked)
	}
	if answer := get(h, http.MethodGet, "/metrics", "Bearer token-of-prometheus"); answer.Code != http.StatusOK {
		t.Errorf("who may read them is answered %d", answer.Code)
	}
}

func TestTokensDoNotTravelInPlain(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), listener, handler(reviewing(nil), well, well)) }()
	// As a kubelet asks: nobody has signed the certificate.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for scheme, want := range map[string]int{"https": http.StatusOK, "http": http.StatusBadRequest} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+listener.Addr().String()+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: %s %q, %v", scheme, answer.Status, body, err)
		}
	}
	select {
	case err := <-served:
		t.Errorf("it ended: %v", err)
	default:
	}
}

func TestAgentsListenOnLoopbackOnly(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:5875": true, "[::1]:5875": true, "0.0.0.0:5875": false, ":5875": false, "192.0.2.1:5875": false, "localhost:5875": false, "127.0.0.1": false,
	} {
		if err := loopback(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
