// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"liqo.io/federation/controllers/clientca"
)

// routes has the endpoints of the kubelet API, without the health probes.
var routes = []struct{ method, path string }{
	{http.MethodPost, "/exec/demo/web/app?command=id&output=1"},
	{http.MethodGet, "/exec/demo/web/app?command=id&output=1"},
	{http.MethodPost, "/attach/demo/web/app?output=1"},
	{http.MethodGet, "/attach/demo/web/app?output=1"},
	{http.MethodPost, "/portForward/demo/web"},
	{http.MethodGet, "/portForward/demo/web"},
	{http.MethodGet, "/containerLogs/demo/web/app"},
	{http.MethodGet, "/pods"},
	{http.MethodGet, "/stats/summary"},
	{http.MethodGet, "/metrics"},
	{http.MethodGet, "/metrics/resource"},
}

func TestVKAnonymousExecDenied(t *testing.T) {
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	token := func(token string) *rest.Config {
		config := n.config(nil)
		config.BearerToken = token
		return config
	}
	unauthenticated := map[string]*rest.Config{
		"no credentials":              n.config(nil),
		"a certificate of another CA": n.config(newAuthority(t)),
		"an invalid token":            token("guessed"),
		"impersonation of root":       impersonating(n.config(nil)),
	}
	for name, config := range unauthenticated {
		for _, route := range append(routes, struct{ method, path string }{http.MethodGet, "/unknown"}) {
			if response := n.do(t, config, route.method, route.path); response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s %s: %s, want 401", name, route.method, route.path, response.Status)
			}
		}
	}
	reviews, requests := n.seen()
	if len(reviews) != 0 || len(requests) != 0 {
		t.Errorf("%d reviews and %d requests to the provider, want none", len(reviews), len(requests))
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if response := n.do(t, n.config(nil), http.MethodGet, path); response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, want 200", path, response.Status)
		}
	}
}

func impersonating(config *rest.Config) *rest.Config {
	config.Impersonate.UserName, config.Impersonate.Groups = "root", []string{"system:masters"}
	return config
}

func TestVKDelegatesSAR(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	n.allow = func(authorizationv1.SubjectAccessReviewSpec) bool { return false }
	config := n.config(n.authority)
	for _, route := range routes {
		response := n.do(t, config, route.method, route.path)
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: %s, want 403", route.method, route.path, response.Status)
		}
	}
	reviews, requests := n.seen()
	if len(requests) != 0 {
		t.Errorf("%d requests reached the provider, want none", len(requests))
	}
	got := map[string]bool{}
	for _, review := range reviews {
		if review.User != "kube-apiserver-kubelet-client" {
			t.Errorf("review for user %q", review.User)
		}
		a := review.ResourceAttributes
		if a.Resource != "nodes" || a.Name != nodeName || a.Group != "" {
			t.Errorf("review about %+v, want the node", a)
		}
		got[a.Verb+" nodes/"+a.Subresource] = true
	}
	want := map[string]bool{
		"create nodes/proxy": true, "get nodes/proxy": true, "get nodes/pods": true, "get nodes/stats": true,
		"get nodes/metrics": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reviewed rights (-want +got):\n%s", diff)
	}
}

func TestRightsThatAuthorizeRequests(t *testing.T) {
	for _, test := range []struct {
		may          permitted
		method, path string
		want         bool
	}{
		{"get nodes/pods", http.MethodGet, "/pods", true},
		{"get nodes/proxy", http.MethodGet, "/pods", true},
		{"create nodes/pods", http.MethodGet, "/pods", false},
		{"get nodes/metrics", http.MethodGet, "/pods", false},
		{"get nodes/pods", http.MethodGet, "/containerLogs/demo/web/app", false},
		{"get nodes/pods", http.MethodGet, "/podsof", false},
		{"get nodes/pods", http.MethodGet, "/stats/summary", false},
		{"get nodes/proxy", http.MethodGet, "/stats/summary", false},
		{"get nodes/stats", http.MethodGet, "/stats/summary", true},
		{"get nodes/metrics", http.MethodGet, "/metrics/resource", true},
		{"get nodes/proxy", http.MethodGet, "/exec/demo/web/app", false},
		{"create nodes/proxy", http.MethodGet, "/exec/demo/web/app", true},
		{"create nodes/pods", http.MethodPost, "/exec/demo/web/app", false},
	} {
		t.Run(string(test.may)+" for "+test.method+" "+test.path, func(t *testing.T) {
			auth := &Auth{
				NodeName: nodeName, Authorizer: test.may,
				Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					return &authenticator.Response{User: &user.DefaultInfo{Name: "prometheus"}}, true, nil
				}),
			}
			want := http.StatusForbidden
			if test.want {
				want = http.StatusOK
			}
			response := httptest.NewRecorder()
			auth.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(
				response, httptest.NewRequest(test.method, test.path, nil),
			)
			if response.Code != want {
				t.Errorf("%d %s, want %d", response.Code, response.Body, want)
			}
		})
	}
}

func TestTokensAreReviewed(t *testing.T) {
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	config := n.config(nil)
	config.BearerToken = goodToken
	response := n.do(t, config, http.MethodGet, "/pods")
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"name":"web"`) {
		t.Errorf("GET /pods: %s: %s", response.Status, body)
	}
	if reviews, _ := n.seen(); len(reviews) != 1 || reviews[0].User != "prometheus" {
		t.Errorf("reviews %+v, want one for prometheus", reviews)
	}
}

func TestFailsClosedWithoutAuthConfigMap(t *testing.T) {
	_, err := NewAuth(t.Context(), fake.NewClientset(), nodeName)
	if err == nil || !strings.Contains(err.Error(), clientca.ConfigMap) {
		t.Errorf("error %v, want one that names the ConfigMap", err)
	}
}

func TestReadinessRequiresTheClientCA(t *testing.T) {
	authority, err := clientca.New(t.Context(), clusterOf(newAuthority(t)))
	if err != nil {
		t.Fatal(err)
	}
	handler := New(
		Config{
			Auth:    &Auth{authority: authority},
			Metrics: http.NotFoundHandler(),
			Usage:   http.NotFoundHandler(),
			Ready:   func() error { return nil },
		},
	)
	for path, want := range map[string]int{
		"/readyz": http.StatusServiceUnavailable, "/livez": http.StatusOK, "/healthz": http.StatusOK,
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d %s, want %d", path, recorder.Code, recorder.Body, want)
		}
	}
}
