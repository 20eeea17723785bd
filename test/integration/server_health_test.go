// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"liqo.io/federation/test/integration/framework"
)

func TestReadinessChecksTheDependenciesOfAServer(t *testing.T) {
	env := framework.Get(t)
	direct := env.Server.Client(env.Admin)
	_, ready := send(t, direct, http.MethodGet, "/readyz?verbose", nil, "")
	for _, check := range []string{
		"etcd", "etcd-readiness", "authorities", "informer-sync",
		"poststarthook/generic-apiserver-start-informers", "poststarthook/priority-and-fairness-config-consumer",
		"poststarthook/federation-ledgers", "poststarthook/federation-informers",
	} {
		if !strings.Contains(ready, "[+]"+check+" ok") {
			t.Errorf("readiness does not check %s:\n%s", check, ready)
		}
	}
	// Liveness must not depend on any other server.
	_, live := send(t, direct, http.MethodGet, "/livez?verbose", nil, "")
	if !strings.Contains(live, "[+]etcd ok") || strings.Contains(live, "informer-sync") ||
		strings.Contains(live, "authorities") {
		t.Errorf("liveness:\n%s", live)
	}
}

func TestRequestsGoThroughPriorityAndFairness(t *testing.T) {
	env := framework.Get(t)
	transport, err := rest.TransportFor(env.Server.Client(env.User(t, "fair")))
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, env.Server.URL+groupPath, nil)
	request.RequestURI = ""
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") == "" {
		t.Errorf("no flow schema matched the request: %v", response.Header)
	}
}
