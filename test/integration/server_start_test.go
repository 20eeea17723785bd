// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

func TestFailedStartEndsWithOneInstructiveLine(t *testing.T) {
	env := framework.Get(t)
	port, err := url.Parse(env.Server.URL)
	if err != nil {
		t.Fatal(err)
	}
	closed := closedPort(t)
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	withoutAggregation, bundle := apiserverWithoutAggregation(t, env.Admin)
	onVolume := func(options string) func(t *testing.T) (string, int) {
		return func(t *testing.T) (string, int) { return env.RunServerOnVolume(t, options) }
	}
	with := func(args ...string) func(t *testing.T) (string, int) {
		return func(t *testing.T) (string, int) { return env.RunServer(t, args...) }
	}

	tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "liqo-tenant-",
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}}
	if _, err := env.Kube.CoreV1().Namespaces().Create(t.Context(), tenant, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		run  func(t *testing.T) (string, int)
		want string
	}{
		"FailsClosedWithoutAuthConfigMap": {
			run: with("--kubeconfig=" + env.AccountKubeconfig(t, withoutAggregation, bundle, "")),
			want: "ConfigMap kube-system/extension-apiserver-authentication is missing: kube-apiserver creates it with " +
				"--requestheader-client-ca-file: enable its aggregation layer",
		},
		"kube-apiserver does not answer": {
			run:  with("--kubeconfig=" + env.AccountKubeconfig(t, "https://"+closed, bundle, "")),
			want: "cannot reach this cluster's Kubernetes API",
		},
		"kube-apiserver has the certificate of another authority": {
			run:  with("--kubeconfig=" + env.AccountKubeconfig(t, env.Admin.Host, bundle, "")),
			want: "certificate signed by unknown authority",
		},
		"the account's token is refused": {
			run:  with("--kubeconfig=" + env.AccountKubeconfig(t, env.Admin.Host, env.Admin.CAData, "stale")),
			want: "refuses the credentials of this server: renew",
		},
		"neither in a pod nor a kubeconfig":     {run: with("--kubeconfig="), want: "set --kubeconfig to a kubeconfig file"},
		"an invalid certificate":                {run: with("--tls-cert-file=" + junk), want: "use a PEM encoded certificate and its private key"},
		"the certificate of another key":        {run: with("--tls-private-key-file=" + otherKey(t, env)), want: "private key does not match public key"},
		"a data directory on a read-only mount": {run: onVolume("ro"), want: "it is on a read-only file system: mount a writable volume"},
		"a data directory on a full volume":     {run: onVolume("size=1m"), want: "its volume is full, 1 MiB are free and 160 MiB are needed: enlarge the volume"},
		"a data directory in use":               {run: with("--data-dir=" + env.Server.DataDir), want: "another process uses it: stop that process"},
		"a data directory that etcd cannot read": {
			run: with("--data-dir=" + brokenData(t, env)),
			want: "etcd gives up: failed to open database: invalid database: enlarge the volume if it is full, otherwise " +
				"restore a backup",
		},
		"an empty store in a cluster that is peered": {
			run: with("--allow-empty-store=false"), want: "the store is empty, but ",
		},
		"a port in use":             {run: with("--secure-port=" + port.Port()), want: "address already in use: stop the process that listens on it, or use another port"},
		"an unreachable etcd":       {run: with("--etcd-servers=http://" + closed), want: "--etcd-servers: cannot reach etcd: http://" + closed + ": dial tcp"},
		"an option that is unknown": {run: with("--magic"), want: "unknown flag: --magic"},
		"an unknown argument":       {run: with("please"), want: `unknown command "please"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, code := test.run(t)
			if code == 0 {
				t.Fatal("it ended without an error")
			}
			if !strings.Contains(output, test.want) || strings.Count(output, "\n") != 1 {
				t.Errorf("got exit code %d and\n%s\nwant one line with %q", code, output, test.want)
			}
		})
	}
}

func TestAllInvalidFlagsAreReportedAtOnce(t *testing.T) {
	output, code := framework.Get(t).RunServer(t, "--cluster-name=", "--namespace=A", "--tls-cert-file=")
	if code == 0 || strings.Count(output, "\n") != 3 {
		t.Errorf("got exit code %d and\n%s\nwant three lines", code, output)
	}
	for _, want := range []string{"--cluster-name is required", `--namespace "A"`,
		"--tls-cert-file and --tls-private-key-file are required"} {
		if !strings.Contains(output, want) {
			t.Errorf("lacks %q:\n%s", want, output)
		}
	}
}

// closedPort returns a loopback address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// apiserverWithoutAggregation runs a proxy of kube-apiserver. The proxy hides the ConfigMap that
// kube-apiserver has only if aggregation is configured.
func apiserverWithoutAggregation(t *testing.T, admin *rest.Config) (address string, bundle []byte) {
	t.Helper()
	target, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(request *httputil.ProxyRequest) {
		request.SetURL(target)
		request.Out.Header.Del("Authorization")
	}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, "/configmaps/extension-apiserver-authentication") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func otherKey(t *testing.T, env *framework.Environment) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.key")
	if err := os.WriteFile(path, env.User(t, "other").KeyData, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// brokenData returns a data directory with an invalid etcd database.
func brokenData(t *testing.T, env *framework.Environment) string {
	t.Helper()
	dir := env.MakeDataDir(t)
	server := env.StartServer(t, dir)
	server.Stop(t, os.Interrupt)
	database := filepath.Join(dir, "etcd", "member", "snap", "db")
	if err := os.WriteFile(database, []byte(strings.Repeat("not a database ", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
