// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Server is a federation API server that runs as a process of its own.
type Server struct {
	// URL is the address of the server itself, without the aggregator.
	URL string
	// DataDir is the data directory of its embedded etcd.
	DataDir string

	environment *Environment
	name        string
	args        []string
	process     *process
}

// newServer returns a server with the permissions of the chart, on a free port and not started.
// more is appended to its default arguments and overrides them.
func (e *Environment) newServer(name, dataDir string, more ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &Server{
		URL:         fmt.Sprintf("https://%s:%d", loopback, port),
		DataDir:     dataDir,
		environment: e,
		name:        name,
		args:        append(e.serverArgs(dataDir, port), more...),
	}, nil
}

func (e *Environment) serverArgs(dataDir string, port int) []string {
	return []string{
		"--kubeconfig=" + e.account,
		"--cluster-name=" + ClusterName, "--namespace=" + Namespace, "--invitation-namespace=" + InvitationNamespace,
		"--server=" + AdvertisedServer, "--policy-trust=SameOwner",
		"--bind-address=" + loopback.String(), fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + e.path("server.crt"), "--tls-private-key-file=" + e.path("server.key"),
		"--data-dir=" + dataDir,
		// The server refuses an empty store in a cluster with federation namespaces, which earlier
		// tests may have left.
		"--allow-empty-store",
		// Refusals are cached only briefly, so that tests do not wait after they grant permissions.
		"--authorization-webhook-cache-unauthorized-ttl=100ms",
		"--profiling",
	}
}

// StartServer starts an additional server, and waits until it is ready. The aggregator does not use
// it. It is stopped when the test ends.
func (e *Environment) StartServer(t testing.TB, dataDir string, more ...string) *Server {
	t.Helper()
	server, err := e.newServer(filepath.Base(t.Name())+"-"+filepath.Base(dataDir), dataDir, more...)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(t, syscall.SIGTERM) })
	return server
}

// MakeDataDir creates a directory with a path that is short enough for a unix socket. It is deleted
// with the environment.
func (e *Environment) MakeDataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(e.dir, "data-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// RunServer runs a server that is expected to fail, and returns its standard error and its exit
// code.
func (e *Environment) RunServer(t testing.TB, more ...string) (output string, code int) {
	t.Helper()
	return e.runServer(t, os.Args[0], append(e.freshArgs(t, e.MakeDataDir(t)), more...))
}

// RunServerOnVolume is RunServer with the data directory on a tmpfs with these mount options, which
// only the server sees.
func (e *Environment) RunServerOnVolume(t testing.TB, options string, more ...string) (output string, code int) {
	t.Helper()
	dir := e.MakeDataDir(t)
	const script = `mount -t tmpfs -o "$1" federation-test "$2" && shift 2 && exec "$@"`
	args := append([]string{"--mount", "sh", "-c", script, "sh", options, dir, os.Args[0]}, e.freshArgs(t, dir)...)
	return e.runServer(t, "unshare", append(args, more...))
}

func (e *Environment) freshArgs(t testing.TB, dataDir string) []string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return e.serverArgs(dataDir, port)
}

func (e *Environment) runServer(t testing.TB, path string, args []string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), programMode+"="+serverProgram)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	err := start(command)
	if err == nil {
		err = command.Wait()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return stderr.String(), 0
	case errors.As(err, &exit) && ctx.Err() == nil:
		return stderr.String(), exit.ExitCode()
	default:
		t.Fatalf("the server does not end by itself: %v", err)
		return "", 0
	}
}

// RunCommand runs a subcommand of the server's program, and returns its standard output. The error
// contains its standard error.
func (e *Environment) RunCommand(t testing.TB, stdin io.Reader, args ...string) ([]byte, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), programMode+"="+serverProgram)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = stdin, &stdout, &stderr
	err := start(command)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.Bytes(), err
}

// Stop sends a signal to the server, and waits until it ends.
func (s *Server) Stop(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.process.stop(signal); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again after Stop, and waits until it is ready. For the shared server it
// also waits until the aggregator reports it as available.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	// Cleanups call Start as well, when the context of the test has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	if err := s.start(ctx); err != nil {
		t.Fatal(err)
	}
	if s != s.environment.Server {
		return
	}
	if err := s.environment.awaitAPI(ctx); err != nil {
		t.Fatal(err)
	}
}

// Log returns the output of the server so far.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(s.process.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.process.command.Process.Pid }

// Client returns config with this server as the host, instead of kube-apiserver.
func (s *Server) Client(config *rest.Config) *rest.Config {
	direct := rest.CopyConfig(config)
	direct.Host = s.URL
	return direct
}

func (s *Server) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.process, err = s.environment.processes.start(s.environment.path(s.name+".log"), os.Args[0],
		[]string{programMode + "=" + serverProgram}, s.args...)
	if err != nil {
		return fmt.Errorf("starting the federation API server: %w", err)
	}
	return s.environment.awaitReady(ctx, s.process, s.URL)
}

// awaitReady waits until the server at this address is ready. It fails if the process ends.
func (e *Environment) awaitReady(ctx context.Context, process *process, server string) error {
	pool := x509.NewCertPool()
	pool.AddCert(e.authority.Certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return process.until(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz?verbose", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		return err
	})
}
