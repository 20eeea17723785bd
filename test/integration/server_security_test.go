// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

const groupPath = "/apis/federation.liqo.io/v1alpha1"

// status returns the status code of the response to a GET.
func status(t *testing.T, config *rest.Config, path string, headers map[string]string) int {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestAnonymousRequestsAreRefusedExceptOnHealthPaths(t *testing.T) {
	env := framework.Get(t)
	direct := env.Server.Client(env.Anonymous())
	for path, want := range map[string]int{
		"/healthz":                     http.StatusOK,
		"/livez":                       http.StatusOK,
		"/readyz":                      http.StatusOK,
		"/readyz?verbose":              http.StatusOK,
		"/readyz/etcd":                 http.StatusUnauthorized,
		"/metrics":                     http.StatusUnauthorized,
		"/debug/pprof/heap":            http.StatusUnauthorized,
		"/openapi/v2":                  http.StatusUnauthorized,
		"/openapi/v3":                  http.StatusUnauthorized,
		"/version":                     http.StatusUnauthorized,
		"/apis":                        http.StatusUnauthorized,
		"/":                            http.StatusUnauthorized,
		groupPath:                      http.StatusUnauthorized,
		groupPath + "/foreignclusters": http.StatusUnauthorized,
	} {
		if got := status(t, direct, path, nil); got != want {
			t.Errorf("GET %s: got %d, want %d", path, got, want)
		}
	}
	if got := status(t, env.Anonymous(), groupPath+"/foreignclusters", nil); got != http.StatusUnauthorized &&
		got != http.StatusForbidden {
		t.Errorf("through the aggregator: got %d", got)
	}
}

// The names of the cases describe known attacks.
func TestRequestHeaderNeedsFrontProxyCert(t *testing.T) {
	env := framework.Get(t)
	path := groupPath + "/foreignclusters"
	asAdmin := map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
	tests := map[string]struct {
		config *rest.Config
		want   int
	}{
		"without a certificate":                          {env.Anonymous(), http.StatusUnauthorized},
		"with a user's certificate":                      {env.User(t, "mallory"), http.StatusForbidden},
		"with the front proxy's certificate":             {env.FrontProxy(t, "front-proxy"), http.StatusOK},
		"RequestHeaderWrongCNRejected":                   {env.FrontProxy(t, "other"), http.StatusUnauthorized},
		"with the front proxy's certificate and no user": {env.FrontProxy(t, "front-proxy"), http.StatusUnauthorized},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			headers := asAdmin
			if strings.HasSuffix(name, "no user") {
				headers = nil
			}
			if got := status(t, env.Server.Client(test.config), path, headers); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
	t.Run("RequestHeaderAnonymous", func(t *testing.T) {
		headers := map[string]string{"X-Remote-User": "system:anonymous", "X-Remote-Group": "system:unauthenticated"}
		if got := status(t, env.Server.Client(env.FrontProxy(t, "front-proxy")), path,
			headers); got != http.StatusUnauthorized {
			t.Errorf("got %d, want 401", got)
		}
	})
}

func TestUserHasThePermissionsOfTheRolesOnly(t *testing.T) {
	env := framework.Get(t)
	mine, other := env.MakeNamespace(t), env.MakeNamespace(t)
	for _, namespace := range []string{mine, other} {
		env.Kubectl(t, offloadingManifest, "apply", "-n", namespace, "-f", "-")
	}
	env.Grant(t, "reader", mine, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
		Resources: []string{"namespaceoffloadings"}, Verbs: []string{"get", "list"}})
	env.Grant(t, "scoped", mine, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
		Resources: []string{"namespaceoffloadings"}, ResourceNames: []string{"offloading"}, Verbs: []string{"get"}})
	env.Grant(t, "status", mine, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
		Resources: []string{"namespaceoffloadings/status"}, Verbs: []string{"get"}})

	item := func(namespace, tail string) string {
		return groupPath + "/namespaces/" + namespace + "/namespaceoffloadings" + tail
	}
	for _, test := range []struct {
		user, path string
		want       int
	}{
		{"reader", item(mine, "/offloading"), http.StatusOK},
		{"reader", item(mine, ""), http.StatusOK},
		{"reader", item(mine, "/offloading/status"), http.StatusForbidden},
		{"reader", item(other, "/offloading"), http.StatusForbidden},
		{"reader", groupPath + "/namespaceoffloadings", http.StatusForbidden},
		{"scoped", item(mine, "/offloading"), http.StatusOK},
		{"scoped", item(mine, "/another"), http.StatusForbidden},
		{"scoped", item(mine, ""), http.StatusForbidden},
		{"scoped", item(other, "/offloading"), http.StatusForbidden},
		{"status", item(mine, "/offloading/status"), http.StatusOK},
		{"status", item(mine, "/offloading"), http.StatusForbidden},
		{"unbound", item(mine, "/offloading"), http.StatusForbidden},
	} {
		user := env.User(t, test.user)
		for road, config := range map[string]*rest.Config{"aggregator": user, "server": env.Server.Client(user)} {
			if got := status(t, config, test.path, nil); got != test.want {
				t.Errorf("%s GET %s of the %s: got %d, want %d", test.user, test.path, road, got, test.want)
			}
		}
	}
}

func TestServiceAccountsAuthenticateByTokens(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	account := env.ServiceAccount(t, namespace, "robot")
	client, err := versioned.NewForConfig(env.Server.Client(account))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.FederationV1alpha1().ForeignClusters().List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a quota: got %v", err)
	}
	env.Grant(t, "system:serviceaccount:"+namespace+":robot", "",
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"foreignclusters"},
			Verbs: []string{"list"}})
	retry(t, func() (any, error) {
		return client.FederationV1alpha1().ForeignClusters().List(t.Context(), metav1.ListOptions{})
	})
	account.BearerToken += "x"
	if got := status(t, env.Server.Client(account), groupPath, nil); got != http.StatusUnauthorized {
		t.Errorf("with a token that was tampered with: got %d", got)
	}
}

func TestMetricsPathRequiresAuthorization(t *testing.T) {
	env := framework.Get(t)
	env.Grant(t, "scraper", "", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	for user, want := range map[string]int{"scraper": http.StatusOK, "unbound": http.StatusForbidden} {
		if got := status(t, env.Server.Client(env.User(t, user)), "/metrics", nil); got != want {
			t.Errorf("%s: got %d, want %d", user, got, want)
		}
	}
}

func TestEveryListenerRequiresAuthn(t *testing.T) {
	t.Run("federation-apiserver", apiserverListenersRequireAuthn)
	t.Run(framework.ControllerManager, func(t *testing.T) {
		env := framework.Get(t)
		installRoles(t, env)
		port := int(freePort(t))
		// The controller manager runs one controller, because others would reconcile objects of
		// other tests.
		account := env.ServiceAccount(t, framework.Namespace, "federation-identity-signer")
		pid := env.StartProgram(t, framework.ControllerManager, port,
			"--kubeconfig="+env.AccountKubeconfig(t, env.Admin.Host, env.Admin.CAData, account.BearerToken),
			"--cluster-name="+framework.ClusterName, "--controllers=identity-signer", "--leader-elect=false",
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port))
		listensOnly(t, env, pid, port, "/", "/metrics", "/debug/pprof/", "/configz", "/healthz/ping", "/readyz/caches")
	})
	t.Run(framework.VirtualKubelet, func(t *testing.T) {
		o := newOffload(t)
		port := int(o.options.Port)
		pid := o.StartProgram(t, framework.VirtualKubelet, port, o.flags()...)
		listensOnly(t, o.Environment, pid, port, "/", "/metrics", "/pods", "/stats/summary",
			"/containerLogs/a/b/c", "/exec/a/b/c", "/attach/a/b/c", "/portForward/a/b")
	})
}

// listensOnly fails the test if a process listens on another port than this one, or if it serves
// one of the paths without credentials.
func listensOnly(t *testing.T, env *framework.Environment, pid, port int, paths ...string) {
	t.Helper()
	if found := listeners(t, pid); len(found) != 1 || !strings.HasSuffix(found[0], fmt.Sprintf(":%d", port)) {
		t.Errorf("listens on %v, want port %d alone", found, port)
	}
	config := env.Anonymous()
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", port)
	for _, path := range paths {
		if got := status(t, config, path, nil); got != http.StatusUnauthorized {
			t.Errorf("GET %s: got %d without credentials", path, got)
		}
	}
}

func apiserverListenersRequireAuthn(t *testing.T) {
	env := framework.Get(t)
	server, err := url.Parse(env.Server.URL)
	if err != nil {
		t.Fatal(err)
	}
	listeners := listeners(t, env.Server.PID())
	if len(listeners) != 1 || !strings.HasSuffix(listeners[0], ":"+server.Port()) {
		t.Errorf("listens on %v, want port %s alone", listeners, server.Port())
	}
	for _, path := range []string{"", "/metrics", "/debug/pprof/"} {
		if got := status(t, env.Server.Client(env.Anonymous()), path, nil); got != http.StatusUnauthorized {
			t.Errorf("GET %s: got %d without credentials", path, got)
		}
	}
	info, err := os.Stat(filepath.Join(env.Server.DataDir, "etcd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.Stat(env.Server.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Type() != os.ModeSocket || directory.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may reach etcd: socket %s in directory %s", info.Mode(), directory.Mode())
	}
}

// listeners returns the TCP and UDP addresses on which a process listens.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	sockets := map[string]bool{}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(descriptors) == 0 {
		t.Fatalf("no open files of process %d: %v", pid, err)
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(target, "socket:[") {
			sockets[strings.Trim(target, "socket:[]")] = true
		}
	}
	// These are the states of a listening TCP socket and of an unconnected UDP socket in /proc/net.
	const listening, unconnected = "0A", "07"
	var found []string
	for table, state := range map[string]string{"tcp": listening, "tcp6": listening, "udp": unconnected,
		"udp6": unconnected} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == state && sockets[fields[9]] {
				_, hexPort, _ := strings.Cut(fields[1], ":")
				var port int
				if _, err := fmt.Sscanf(hexPort, "%X", &port); err != nil {
					t.Fatal(err)
				}
				found = append(found, fmt.Sprintf("%s:%d", table, port))
			}
		}
	}
	return found
}
