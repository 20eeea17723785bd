// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework starts, once for all tests of a package, the programs etcd and kube-apiserver, and the federation
// API server behind the aggregation layer. All processes listen on loopback addresses or unix sockets, and end with the
// tests, also when these are interrupted.
//
// A package of tests calls Main from its TestMain and Get in its tests:
//
//	func TestMain(m *testing.M) { framework.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		env := framework.Get(t)
//		client := versioned.NewForConfigOrDie(env.Admin)
//		…
//	}
//
// The environment variable KUBE_BIN_DIR is the directory of etcd, kube-apiserver, kubectl and helm. The
// default is .playground/bin of the repository.
package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	server "liqo.io/federation/apiserver/cmd/federation-apiserver/app"
	manager "liqo.io/federation/controllers/cmd/federation-controller-manager/app"
	virtualkubelet "liqo.io/federation/controllers/virtualkubelet/app"
	"liqo.io/federation/test/certificates"
)

const (
	// startTimeout is the maximal time until the environment is ready.
	startTimeout = time.Minute
	// programMode is an environment variable. In a process in which it is set, the test binary runs
	// one of the project's programs instead of tests.
	programMode    = "FEDERATION_TEST_PROGRAM"
	serverProgram  = "federation-apiserver"
	managerProgram = "federation-controller-manager"

	// Namespace is the installation namespace.
	Namespace = "liqo"
	// InvitationNamespace is the namespace of the ServiceAccounts of invitations.
	InvitationNamespace = "liqo-invitations"
	// ClusterName is the name of the environment's cluster.
	ClusterName = "rome"
	// AdvertisedServer is the server in invitations of the cluster. Only a Proxy can connect to it.
	AdvertisedServer = "https://" + advertisedHost + ":6443"
	advertisedHost   = "rome.example.com"
)

// Environment is one cluster with the federation API. No controllers of Kubernetes run: deleted
// namespaces stay terminating, and namespaces have no default ServiceAccount.
type Environment struct {
	// Admin is a client configuration for a member of system:masters.
	Admin *rest.Config
	// Kube is a client of Kubernetes' own resources with the permissions of Admin.
	Kube kubernetes.Interface
	// Server is the federation API server to which the aggregator sends requests.
	Server *Server
	// EtcdURL is the address of kube-apiserver's etcd, for servers without an embedded one.
	EtcdURL string

	dir       string
	bin       string
	processes processes
	authority *certificates.Authority
	proxy     *certificates.Authority
	// advertised is the authority that signs the serving certificate of AdvertisedServer.
	advertised *certificates.Authority
	etcd       string
	apiserver  string
	// account is the path of the federation API server's kubeconfig, and token the token in it.
	// They have the permissions of the chart.
	account, token string
}

var (
	shared *Environment
	// failure is the reason for which the shared environment did not start.
	failure error
)

// Main starts the shared environment, runs the tests of a package, and exits.
func Main(m *testing.M) {
	if name := os.Getenv(programMode); name != "" {
		os.Exit(program(name))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := &Environment{}
	cleanUp := sync.OnceFunc(env.stop)
	defer cleanUp()
	disarm := context.AfterFunc(ctx, func() {
		cleanUp()
		os.Exit(130)
	})
	defer disarm()

	started := time.Now()
	if failure = env.start(ctx); failure != nil {
		fmt.Fprintf(os.Stderr, "the test environment does not start: %v\n", failure)
		return 1
	}
	fmt.Fprintf(os.Stderr, "the test environment started in %s\n", time.Since(started).Round(10*time.Millisecond))
	shared = env
	return m.Run()
}

// program runs one of the project's programs, and returns its exit code.
func program(name string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return server.NewCommand(os.Stdout).ExecuteContext(ctx) }
	switch name {
	case managerProgram:
		run = manager.NewCommand(ctx).Execute
	case VirtualKubelet:
		command := virtualkubelet.NewCommand(ctx)
		// The version flag of another program is registered in this binary already.
		command.Version = ""
		run = command.Execute
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Get returns the shared environment of the tests of a package.
func Get(t testing.TB) *Environment {
	t.Helper()
	if shared == nil {
		t.Fatal("no environment: the package's TestMain must call framework.Main")
	}
	return shared
}

func (e *Environment) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	if e.bin, err = binaries(); err != nil {
		return err
	}
	if e.dir, err = os.MkdirTemp("", "federation-test-"); err != nil {
		return err
	}
	if err := e.startControlPlane(ctx); err != nil {
		return err
	}
	if err := e.installRoles(ctx); err != nil {
		return err
	}
	if err := e.installServer(ctx); err != nil {
		return err
	}
	return e.registerAPI(ctx)
}

func (e *Environment) stop() {
	e.processes.stopAll()
	if e.dir == "" {
		return
	}
	// If the tests are interrupted, one of them may still write to the directory, so its deletion
	// is retried.
	var err error
	gone := func(context.Context) (bool, error) {
		err = os.RemoveAll(e.dir)
		return err == nil, nil
	}
	if wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, 2*time.Second, true, gone) == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "deleting the directory of the test environment: %v\n", err)
}

// binaries returns the directory with the programs of Kubernetes and etcd.
func binaries() (string, error) {
	dir := os.Getenv("KUBE_BIN_DIR")
	if dir == "" {
		root, err := repository()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, ".playground", "bin")
	}
	for _, name := range []string{"etcd", "helm", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf(
				"no %s in %s: run `make playground` and `.playground/bin/playground build --only "+
					"etcd,helm,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl`, or set KUBE_BIN_DIR", name, dir)
		}
	}
	return dir, nil
}

// repository returns the root directory of the repository, which contains go.mod.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not in the repository: no go.mod in any parent directory")
		}
		dir = parent
	}
}
