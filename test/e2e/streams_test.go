// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/test/harness"
)

// serving runs the pod web, which is offloaded and serves HTTP, and returns its namespaces.
func serving(t *testing.T) offload {
	t.Helper()
	o := offloaded(t, remoteOnly)
	runReadyPod(t, o.namespace, "web", podSpec("serve"))
	return o
}

// start starts a command and returns its output. The command ends with the test.
func start(t *testing.T, cmd *exec.Cmd) *transcript {
	t.Helper()
	cmd.Stderr = cmd.Stdout
	output := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The command has ended by then, because the context of the test ends before cleanups run.
	t.Cleanup(func() { cmd.Wait() })
	return transcribe(output)
}

func logs(t *testing.T) {
	o := serving(t)
	log := func(options ...string) string {
		t.Helper()
		return kubectl(t, rome, append([]string{"logs", "-n", o.namespace, "web"}, options...)...)
	}
	hello := log()
	if !strings.HasPrefix(hello, "serving on :8080 as web\n") {
		t.Fatalf("the log is %q", hello)
	}

	follow := rome.KubectlCommand(t.Context(), "logs", "-n", o.namespace, "web", "--follow")
	following := start(t, follow)
	following.shows(t, "serving on")
	writeLogLine(t, o.remote, "web", "one")
	following.shows(t, "one\n")
	writeLogLine(t, o.remote, "web", "two")
	following.shows(t, "two\n")

	if got := log("--tail=1"); got != "two\n" {
		t.Errorf("--tail=1 gave %q", got)
	}
	if got := log("--limit-bytes=7"); got != "serving" {
		t.Errorf("--limit-bytes=7 gave %q", got)
	}
	stamped := strings.Split(strings.TrimSpace(log("--timestamps", "--tail=1")), " ")
	if len(stamped) != 2 || stamped[1] != "two" {
		t.Fatalf("--timestamps gave %q", stamped)
	}
	written := must(time.Parse(time.RFC3339Nano, stamped[0]))(t)

	// sinceTime has a granularity of one second.
	since := written.Truncate(time.Second).Add(time.Second)
	eventually(t, soon, "another second",
		func(context.Context) (bool, string, error) { return time.Now().After(since), "", nil })
	writeLogLine(t, o.remote, "web", "three")
	following.shows(t, "three\n")
	if got := log("--since-time=" + since.UTC().Format(time.RFC3339)); got != "three\n" {
		t.Errorf("--since-time=%s gave %q", since, got)
	}
	if got := log("--since=1h"); !strings.HasSuffix(got, "one\ntwo\nthree\n") {
		t.Errorf("--since=1h gave %q", got)
	}

	// A follower of the log ends when the container does.
	requestPod(t, o.remote, "web", "exit", "code", "0")
	following.shows(t, "ending with 0\n")
	if err := follow.Wait(); err != nil {
		t.Errorf("kubectl logs --follow did not end well: %v", err)
	}
	podThat(t, rome, o.namespace, "web", "show the restart", func(p *corev1.Pod) bool {
		return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	if got := log("--previous"); !strings.HasSuffix(got, "three\nending with 0\n") {
		t.Errorf("--previous gave %q", got)
	}
	if got := log(); got != hello {
		t.Errorf("the log of the new container is %q", got)
	}

	result := rome.Kubectl(t.Context(), "logs", "-n", o.namespace, "web", "-c", "unknown")
	if result.Code != 1 || !strings.Contains(result.Stderr, "unknown") {
		t.Errorf("the log of a container that does not exist: code %d, %q", result.Code, result.Stderr)
	}
}

func logsTailZero(t *testing.T) {
	o := serving(t)
	if got := kubectl(t, rome, "logs", "-n", o.namespace, "web", "--tail=0"); got != "" {
		t.Errorf("--tail=0 gave %q", got)
	}
	following := start(t, rome.KubectlCommand(t.Context(), "logs", "-n", o.namespace, "web", "--tail=0", "--follow"))
	// It is unknown when the follower is connected, so lines are written until it receives one.
	eventually(t, soon, "the follower to receive a line", func(context.Context) (bool, string, error) {
		writeLogLine(t, o.remote, "web", "now")
		return strings.Contains(following.String(), "now\n"), following.String(), nil
	})
	if strings.Contains(following.String(), "serving") {
		t.Errorf("--tail=0 --follow printed old lines: %q", following.String())
	}
}

func execCopiesStdin(t *testing.T) {
	o := serving(t)
	sent := make([]byte, 4<<20)
	for i := range sent {
		sent[i] = byte(rand.N(256))
	}
	cmd := rome.KubectlCommand(t.Context(), "exec", "-i", "-n", o.namespace, "web", "--", tester, "cat")
	cmd.Stdin = bytes.NewReader(sent)
	result := harness.Run(cmd)
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	if !bytes.Equal([]byte(result.Stdout), sent) {
		t.Errorf("sent %d bytes, and %d were returned", len(sent), len(result.Stdout))
	}
}

func execExitCode(t *testing.T) {
	o := serving(t)
	for _, code := range []int{0, 1, 42, 137, 255} {
		result := rome.Kubectl(t.Context(), "exec", "-n", o.namespace, "web", "--", tester, "exit", fmt.Sprint(code))
		if result.Code != code {
			t.Errorf("a program that ends with %d: kubectl ends with %d: %s", code, result.Code, result.Stderr)
		}
	}
	result := rome.Kubectl(t.Context(), "exec", "-n", o.namespace, "web", "--", "/no-such-program")
	if result.Code == 0 || !strings.Contains(result.Stderr, "no-such-program") {
		t.Errorf("a program that does not exist: code %d, %q", result.Code, result.Stderr)
	}
	result = rome.Kubectl(t.Context(), "exec", "-n", o.namespace, "web", "--", tester, "ls", "/missing")
	if result.Code != 1 || result.Stdout != "" || !strings.Contains(result.Stderr, "/missing") {
		t.Errorf("output to stderr: code %d, stdout %q, stderr %q", result.Code, result.Stdout, result.Stderr)
	}
}

func execResize(t *testing.T) {
	o := serving(t)
	terminal := openTerminal(t)
	terminal.resize(t, 31, 97)
	cmd := rome.KubectlCommand(t.Context(), "exec", "-it", "-n", o.namespace, "web", "--", tester, "winsize")
	screen := terminal.start(t, cmd)
	screen.shows(t, "size 31 97")
	terminal.resize(t, 50, 132)
	screen.shows(t, "size 50 132")
	// Ctrl-D at the beginning of a line ends the input of a terminal.
	must(terminal.user.Write([]byte{4}))(t)
	if err := cmd.Wait(); err != nil {
		t.Errorf("kubectl exec -it ended with %v: %s", err, screen)
	}
}

func attach(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.Containers[0].Stdin = true
	runReadyPod(t, o.namespace, "web", spec)
	cmd := rome.KubectlCommand(t.Context(), "attach", "-i", "-n", o.namespace, "web")
	input := must(cmd.StdinPipe())(t)
	attached := start(t, cmd)
	// It is unknown when kubectl is attached. The program echoes its input from then on.
	must(io.WriteString(input, "good morning\n"))(t)
	attached.shows(t, `read "good morning"`)
	must(io.WriteString(input, "good night\n"))(t)
	attached.shows(t, `read "good night"`)
}

var forwarded = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `)

// forward runs kubectl port-forward until the test ends, and returns the local address.
func forward(t *testing.T, c *harness.Cluster, namespace, target, port string) string {
	t.Helper()
	output := start(t, c.KubectlCommand(t.Context(), "port-forward", "-n", namespace, target, ":"+port))
	output.shows(t, "Forwarding from 127.0.0.1")
	return forwarded.FindStringSubmatch(output.String())[1]
}

func portForward(t *testing.T) {
	o := serving(t)
	address := forward(t, rome, o.namespace, "pod/web", "8080")
	for range 5 {
		// Each request opens a connection.
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: soon}
		response := must(client.Get("http://" + address + "/"))(t)
		body := must(io.ReadAll(response.Body))(t)
		response.Body.Close()
		if string(body) != "hello from web\n" {
			t.Fatalf("through the forwarded port: %q", body)
		}
	}
}
