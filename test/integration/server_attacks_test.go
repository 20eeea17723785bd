// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"liqo.io/federation/test/integration/framework"
)

// exchange sends one request, and returns the status code and the body. It does not follow
// redirects.
func exchange(t *testing.T, config *rest.Config, method, path, contentType string, body []byte) (int, []byte) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPatch && contentType == "application/json" {
		contentType = "application/merge-patch+json"
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// Headers of the request must not change the identity that the connection authenticated.
func TestProxyStripsIdentityHeaders(t *testing.T) {
	env := framework.Get(t)
	mallory := env.User(t, "mallory")
	for road, config := range map[string]*rest.Config{"the aggregator": mallory,
		"the server": env.Server.Client(mallory)} {
		for _, headers := range []map[string]string{
			{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
			{"x-remote-user": "admin", "X-Remote-Group": "system:masters", "X-Remote-Uid": "0", "X-Remote-Extra-Scopes": "all"},
			{"X-Remote-Group": "system:masters"},
		} {
			if got := status(t, config, groupPath+"/foreignclusters", headers); got != http.StatusForbidden {
				t.Errorf("%v by %s: got %d", headers, road, got)
			}
		}
	}
}

func TestNeverEmits3xx(t *testing.T) {
	env := framework.Get(t)
	admin := env.Server.Client(env.Admin)
	code, index := exchange(t, admin, http.MethodGet, "/", "application/json", nil)
	var known struct{ Paths []string }
	if err := json.Unmarshal(index, &known); err != nil || code != http.StatusOK || len(known.Paths) < 20 {
		t.Fatalf("the index of paths: %d, %v: %.200s", code, err, index)
	}
	paths := append(known.Paths,
		"//", "/apis//", "//apis", "/apis/", "/./apis", "/apis/../apis", "/apis/federation.liqo.io//v1alpha1", groupPath+"/",
		groupPath+"//foreignclusters",
		groupPath+"/foreignclusters/", groupPath+"/foreignclusters/x/", groupPath+"/foreignclusters/x/peer/",
		groupPath+"/namespaces/x/../y/shadowpods",
		groupPath+"/watch/foreignclusters?timeoutSeconds=1", groupPath+"/proxy/foreignclusters/x",
		groupPath+"/foreignclusters/x/proxy/y",
		groupPath+"/foreignclusters/%2e%2e", groupPath+"/foreignclusters/https:%2f%2fexample.com", "/readyz/", "/metrics/",
		"/openapi/v3/", "/debug/pprof/")
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if method == http.MethodDelete && path == groupPath+"/foreignclusters/" {
				continue
			}
			if code, _ := exchange(t, admin, method, path, "application/json", []byte("{}")); code >= 300 && code < 400 {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
}
