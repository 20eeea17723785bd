// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/utils/exec"
)

// withKubeletParameters translates the parameters of exec and attach to the names in the kubelet API, as the provider's
// API server does.
func withKubeletParameters(handler http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for api, kubelet := range map[string]string{
			"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty",
		} {
			if query.Get(api) == "true" {
				query.Set(kubelet, "1")
			}
		}
		r.URL.RawQuery = query.Encode()
		handler.ServeHTTP(w, r)
	}
}

func (n *node) executor(t *testing.T, pathAndQuery string) remotecommand.Executor {
	t.Helper()
	target, err := url.Parse(n.url + pathAndQuery)
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(n.config(n.authority), http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	return executor
}

func TestExecExitCode(t *testing.T) {
	exec := func(_ context.Context, _, _, _ string, command []string, streams api.AttachIO) error {
		words, err := io.ReadAll(streams.Stdin())
		if err != nil {
			return err
		}
		fmt.Fprintf(streams.Stdout(), "%v prints %s", command, words)
		fmt.Fprint(streams.Stderr(), "and fails")
		return utilexec.CodeExitError{Err: errors.New("exit 42"), Code: 42}
	}
	n := startNode(t, withKubeletParameters(api.HandleContainerExec(exec)))
	var stdout, stderr bytes.Buffer
	err := n.executor(t, "/exec/demo/web/app?command=sh&command=-c&input=1&output=1&error=1").
		StreamWithContext(t.Context(),
			remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout, Stderr: &stderr})
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 42 {
		t.Errorf("error %v, want exit code 42", err)
	}
	if got := stdout.String(); got != "[sh -c] prints hello" {
		t.Errorf("stdout %q", got)
	}
	if got := stderr.String(); got != "and fails" {
		t.Errorf("stderr %q", got)
	}
	_, requests := n.seen()
	if len(requests) != 1 || requests[0].URL.Path != "/api/v1/namespaces/demo-rome/pods/web/exec" {
		t.Errorf("the provider received %v", requests)
	}
}

// sizes implements remotecommand.TerminalSizeQueue.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	if size, ok := <-s; ok {
		return &size
	}
	return nil
}

func TestExecResize(t *testing.T) {
	want := []api.TermSize{{Width: 80, Height: 24}, {Width: 132, Height: 43}}
	var got []api.TermSize
	exec := func(ctx context.Context, _, _, _ string, _ []string, streams api.AttachIO) error {
		if !streams.TTY() {
			return errors.New("no terminal")
		}
		for len(got) < len(want) {
			select {
			case size := <-streams.Resize():
				got = append(got, size)
				fmt.Fprintln(streams.Stdout(), size)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	n := startNode(t, withKubeletParameters(api.HandleContainerExec(exec)))
	queue := make(sizes, 1)
	queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
	seen, stdout := io.Pipe()
	go func() {
		// The second size is sent after the first one was received.
		if bufio.NewScanner(seen).Scan() {
			queue <- remotecommand.TerminalSize{Width: 132, Height: 43}
		}
		io.Copy(io.Discard, seen)
	}()
	err := n.executor(t, "/exec/demo/web/app?command=sh&input=1&output=1&tty=1").StreamWithContext(t.Context(),
		remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: stdout, Tty: true, TerminalSizeQueue: queue})
	close(queue)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sizes that arrived (-want +got):\n%s", diff)
	}
}

func TestAttachReachesTheContainer(t *testing.T) {
	attach := func(_ context.Context, _, _, _ string, streams api.AttachIO) error {
		_, err := fmt.Fprint(streams.Stdout(), "attached")
		return err
	}
	n := startNode(t, withKubeletParameters(api.HandleContainerAttach(attach)))
	var stdout bytes.Buffer
	err := n.executor(t, "/attach/demo/web/app?output=1").
		StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout})
	if err != nil || stdout.String() != "attached" {
		t.Errorf("stdout %q, error %v", stdout.String(), err)
	}
}

func TestPortForwardCarriesBothWays(t *testing.T) {
	forward := func(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
		line, err := bufio.NewReader(stream).ReadString('\n')
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stream, "port %d received %s", port, line)
		return err
	}
	n := startNode(t, api.HandlePortForward(forward).ServeHTTP)
	transport, upgrader, err := spdy.RoundTripperFor(n.config(n.authority))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(n.url + "/portForward/demo/web")
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(
		spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		[]string{"127.0.0.1"},
		[]string{"0:8080"},
		stop,
		ready,
		io.Discard,
		io.Discard,
	)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	response, err := converse(fmt.Sprintf("127.0.0.1:%d", ports[0].Local), "hello\n")
	if err != nil || response != "port 8080 received hello\n" {
		t.Errorf("response %q, error %v", response, err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLogsTailZero(t *testing.T) {
	tests := []struct {
		name, query string
		want        url.Values
		status      int
	}{
		{name: "no lines", query: "tailLines=0", want: url.Values{"tailLines": {"0"}}},
		{name: "all lines", query: "", want: url.Values{}},
		{
			name:  "all other options",
			query: "follow=true&previous=true&timestamps=true&limitBytes=10&sinceSeconds=5",
			want: url.Values{
				"follow":       {"true"},
				"previous":     {"true"},
				"timestamps":   {"true"},
				"limitBytes":   {"10"},
				"sinceSeconds": {"5"},
			},
		},
		{
			name:  "since a time",
			query: "sinceTime=2026-11-21T01:00:00Z",
			want:  url.Values{"sinceTime": {"2026-11-21T01:00:00Z"}},
		},
		{name: "both streams are the default", query: "stream=All", want: url.Values{}},
		{name: "one stream", query: "stream=Stderr", want: url.Values{"stream": {"Stderr"}}},
		{name: "unknown options are dropped", query: "insecureSkipTLSVerifyBackend=true", want: url.Values{}},
		{name: "negative lines", query: "tailLines=-1", status: http.StatusBadRequest},
		{name: "an invalid time", query: "sinceTime=yesterday", status: http.StatusBadRequest},
	}
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a line") })
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, before := n.seen()
			response := n.do(t, n.config(n.authority), http.MethodGet, "/containerLogs/demo/web/app?"+test.query)
			_, requests := n.seen()
			if test.status != 0 {
				if response.StatusCode != test.status || len(requests) != len(before) {
					t.Errorf("%s, and the provider received %d requests; want %d and none",
						response.Status, len(requests)-len(before), test.status)
				}
				return
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != "a line" {
				t.Errorf("log %q, error %v", body, err)
			}
			test.want.Set("container", "app")
			if diff := cmp.Diff(test.want, requests[len(requests)-1].URL.Query()); diff != "" {
				t.Errorf("query that the provider received (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogsAreFollowedLineByLine(t *testing.T) {
	more := make(chan struct{})
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-more
		fmt.Fprintln(w, "second")
	})
	response := n.do(t, n.config(n.authority), http.MethodGet, "/containerLogs/demo/web/app?follow=true")
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("first line %q", lines.Text())
	}
	close(more)
	if !lines.Scan() || lines.Text() != "second" {
		t.Errorf("second line %q", lines.Text())
	}
}

func TestInitAndEphemeralContainersAreReached(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query().Get("container")) })
	for _, container := range []string{"app", "init", "debug"} {
		response := n.do(t, n.config(n.authority), http.MethodGet, "/containerLogs/demo/web/"+container)
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != container {
			t.Errorf("log of %s: %q, %s, %v", container, body, response.Status, err)
		}
	}
}

func TestRemotePathIsAllowListed(t *testing.T) {
	paths := []string{
		"/containerLogs/demo/other/app",
		"/containerLogs/kube-system/web/app",
		"/containerLogs/demo/web/other",
		"/containerLogs/demo/web/app/more",
		"/containerLogs/demo/..%2f..%2fsecrets/app",
		"/containerLogs/demo/web%2fproxy/app",
		"/containerLogs/..%2fkube-system/web/app",
		"/containerLogs/demo/%2e%2e/app",
		"/containerLogs/demo/web/app%3fcontainer=x",
		"/containerLogs/demo//app",
		"/containerLogs/demo/web/../../../secrets",
		"//containerLogs/demo/web/app",
		"/api/v1/secrets",
		"/run/demo/web/app",
		"/logs/",
	}
	n := startNode(t, func(http.ResponseWriter, *http.Request) {})
	for _, path := range paths {
		response := n.do(t, n.config(n.authority), http.MethodGet, path)
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, want 404", path, response.Status)
		}
	}
	if _, requests := n.seen(); len(requests) != 0 {
		t.Errorf("%d requests reached the provider, the first is %s", len(requests), requests[0].URL)
	}
}

func TestPeerRedirectRefused(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://10.0.0.1/", http.StatusFound)
	})
	for _, path := range []string{"/containerLogs/demo/web/app", "/exec/demo/web/app?command=id&output=1"} {
		response := n.do(t, n.config(n.authority), http.MethodGet, path)
		if response.StatusCode < 400 || response.Header.Get("Location") != "" {
			t.Errorf("%s: %s to %q, want an error", path, response.Status, response.Header.Get("Location"))
		}
	}
	err := n.executor(t, "/exec/demo/web/app?command=id&output=1").
		StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil {
		t.Error("an upgrade followed a redirect")
	}
}

// A provider that signs no certificates issues tokens instead; a renewed token is written to the same file.
func TestStreamsCarryTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-this-cluster"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusConflict) },
		func(config *rest.Config) { config.BearerTokenFile = file })
	for _, route := range routes {
		if !strings.HasPrefix(route.path, "/exec/") && !strings.HasPrefix(route.path, "/attach/") &&
			!strings.HasPrefix(route.path, "/portForward/") {
			n.do(t, n.config(n.authority), route.method, route.path)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := n.executor(t, route.path).StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard})
		cancel()
		if err == nil {
			t.Errorf("%s was not refused", route.path)
		}
	}
	_, requests := n.seen()
	if len(requests) < 7 {
		t.Errorf("the provider received %d requests, want at least 7", len(requests))
	}
	for _, request := range requests {
		if got := request.Header.Get("Authorization"); got != "Bearer of-this-cluster" {
			t.Errorf("%s carries the authorization %q", request.URL.Path, got)
		}
	}
}

func TestRefusedUpgradeReturnsTheProvidersMessage(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such pod", http.StatusNotFound)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := n.executor(t, "/exec/demo/web/app?command=id&output=1").
		StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("error %v, want the provider's", err)
	}
}
