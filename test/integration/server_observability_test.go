// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/test/integration/framework"
)

func TestMetricsAndProfilesRequireAuthorization(t *testing.T) {
	env := framework.Get(t)
	for name, server := range map[string]string{
		"the API server":         env.Server.URL,
		"the controller manager": env.StartControllers(t, "observed", signer, "--controllers=identity-signer", "--leader-elect=false").URL,
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/heap"} {
			if name != "the API server" && path != "/metrics" {
				continue
			}
			direct := func(config *rest.Config) *rest.Config {
				config = rest.CopyConfig(config)
				config.Host = server
				return config
			}
			if got := status(t, direct(env.Anonymous()), path, nil); got != http.StatusUnauthorized {
				t.Errorf("%s of %s without credentials: got %d", path, name, got)
			}
			user := "observer of " + path
			if got := status(t, direct(env.User(t, user)), path, nil); got != http.StatusForbidden {
				t.Errorf("%s of %s without permission: got %d", path, name, got)
			}
			other := "authorized " + user
			env.Grant(t, other, "", rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{"get"}})
			if got := status(t, direct(env.User(t, other)), path, nil); got != http.StatusOK {
				t.Errorf("%s of %s with permission: got %d", path, name, got)
			}
		}
	}
}

func TestTheLogCanBeJSON(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t), "--logging-format=json", "--v=2")
	server.Stop(t, syscall.SIGTERM)
	lines := 0
	for line := range strings.Lines(server.Log(t)) {
		var entry struct {
			Message string `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Message == "" {
			t.Errorf("%v in %s", err, line)
		}
		lines++
	}
	if lines == 0 {
		t.Error("the log is empty")
	}
}

// spans records the names of exported spans.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]bool
}

func (s *spans) Export(_ context.Context,
	request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names[span.Name] = true
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansAreExportedToTheConfiguredEndpoint(t *testing.T) {
	env := framework.Get(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := &spans{names: map[string]bool{}}
	service := grpc.NewServer()
	collector.RegisterTraceServiceServer(service, received)
	go service.Serve(listener)
	t.Cleanup(service.Stop)

	config := filepath.Join(t.TempDir(), "tracing.yaml")
	content := fmt.Sprintf(
		"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n",
		listener.Addr())
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	server := env.StartServer(t, env.MakeDataDir(t), "--tracing-config-file="+config)
	const path = groupPath + "/peeringtokens"
	if got := status(t, server.Client(env.Admin), path, nil); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	// There must be spans of the request, and of the requests that the server sent to etcd for it.
	retryFor(t, time.Minute, func() (any, error) {
		received.mu.Lock()
		defer received.mu.Unlock()
		var request, etcd bool
		for name := range received.names {
			request = request || strings.Contains(name, "peeringtokens") || strings.Contains(name, "List")
			etcd = etcd || strings.HasPrefix(name, "etcdserverpb.KV/")
		}
		if !request || !etcd {
			return nil, fmt.Errorf("spans: %v", received.names)
		}
		return nil, nil
	})
}
