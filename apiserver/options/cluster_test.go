// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"liqo.io/federation/test/fakes"
)

func TestClusterIDIsTheUIDOfKubeSystem(t *testing.T) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "8f2c"}})
	c := &cluster{config: &rest.Config{}, client: client}
	if err := c.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.id != "8f2c" {
		t.Errorf("got id %q", c.id)
	}
}

func TestErrorsOfConnectNameTheRemedy(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	tests := map[string]struct {
		err  error
		want string
	}{
		"unreachable":  {errors.New("dial tcp 192.0.2.1:6443: connect: connection refused"), "cannot reach this cluster's Kubernetes API: dial tcp"},
		"unauthorized": {apierrors.NewUnauthorized("who?"), "refuses the credentials of this server"},
		"forbidden":    {apierrors.NewForbidden(namespaces, "kube-system", errors.New("no")), "bind ClusterRole federation-apiserver"},
		"two lines":    {errors.New("proxy\nrefuses"), "proxy refuses"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			fakes.React(client, "get", "namespaces",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			c := &cluster{config: &rest.Config{Host: "https://rome:6443"}, client: client}
			err := c.identify(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "https://rome:6443") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestInvalidCertificatesInKubeconfigNameTheRemedy(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"a","cluster":{"server":"https://rome:6443",`+
		`"certificate-authority-data":"anVuaw=="}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],`+
		`"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = ": check the certificates in --kubeconfig"
	_, err := parse(t, "--kubeconfig="+kubeconfig).connect(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got error %v, want one that ends with %q", err, want)
	}
}

func TestErrorsOfConfigurationNameTheRemedy(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writePair(t, time.Now().Add(time.Hour))
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		// status is the status code of kube-apiserver for all requests.
		status int
		want   string
	}{
		"tracing": {[]string{"--tracing-config-file=" + junk}, http.StatusNotFound, ": check --tracing-config-file"},
		"storage": {[]string{"--encryption-provider-config=" + junk}, http.StatusNotFound,
			": check --encryption-provider-config"},
		"HTTPS": {[]string{"--tls-cert-file=" + junk}, http.StatusNotFound,
			": check --tls-cert-file and --tls-private-key-file"},
		"authentication": {nil, http.StatusForbidden,
			": check ConfigMap kube-system/extension-apiserver-authentication, and the permission to read it"},
		"audit": {[]string{"--audit-policy-file=" + junk}, http.StatusNotFound,
			": check --audit-policy-file, --audit-log-path and --audit-webhook-config-file"},
		"admission": {[]string{"--admission-control-config-file=" + junk}, http.StatusNotFound,
			": check --admission-control-config-file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
			}))
			defer kube.Close()
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"a","cluster":{"server":"`+kube.URL+`"}}],`+
				`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			o := parse(t, append([]string{"--bind-address=127.0.0.1", "--secure-port=0", "--kubeconfig=" + kubeconfig,
				"--tls-cert-file=" + certFile, "--tls-private-key-file=" + keyFile}, test.args...)...)
			if err := o.listen(); err != nil {
				t.Fatal(err)
			}
			defer o.Serving.Listener.Close()
			_, err := o.config(&cluster{config: &rest.Config{Host: kube.URL}, client: fake.NewClientset()}, true)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got error %v, want one that ends with %q", err, test.want)
			}
		})
	}
}

func TestServerRequiresTheAuthorityOfTheFrontProxy(t *testing.T) {
	configMap := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
			Name: "extension-apiserver-authentication"}, Data: data}
	}
	tests := map[string]struct {
		objects []runtime.Object
		err     error
		want    string
	}{
		"present":   {objects: []runtime.Object{configMap(map[string]string{"requestheader-client-ca-file": "PEM"})}},
		"missing":   {want: "is missing: kube-apiserver creates it with --requestheader-client-ca-file"},
		"without":   {objects: []runtime.Object{configMap(map[string]string{"client-ca-file": "PEM"})}, want: "has no requestheader-client-ca-file"},
		"empty":     {objects: []runtime.Object{configMap(map[string]string{"requestheader-client-ca-file": " \n"})}, want: "has no requestheader-client-ca-file"},
		"forbidden": {err: apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no")), want: "bind Role extension-apiserver-authentication-reader"},
		"broken":    {err: errors.New("connection\nreset"), want: "connection reset: check that this cluster's Kubernetes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(test.objects...)
			if test.err != nil {
				fakes.React(client, "get", "configmaps",
					func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			}
			err := (&cluster{config: &rest.Config{}, client: client}).checkAuthentication(t.Context())
			if test.want == "" {
				if err != nil {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestInvitationsHaveTheConfiguredAuthorityOrTheClusters(t *testing.T) {
	dir := t.TempDir()
	given, own := filepath.Join(dir, "given.crt"), filepath.Join(dir, "own.crt")
	for file, content := range map[string]string{given: "given", own: "own"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		file string
		tls  rest.TLSClientConfig
		want string
	}{
		"the configured one":            {given, rest.TLSClientConfig{CAFile: own, CAData: []byte("data")}, "given"},
		"the cluster's from memory":     {"", rest.TLSClientConfig{CAFile: own, CAData: []byte("data")}, "data"},
		"the cluster's from a file":     {"", rest.TLSClientConfig{CAFile: own}, "own"},
		"none":                          {"", rest.TLSClientConfig{}, ""},
		"an unreadable file is refused": {filepath.Join(dir, "missing"), rest.TLSClientConfig{}, "error"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := bundleOf(test.file, &rest.Config{TLSClientConfig: test.tls})
			if (err != nil) != (test.want == "error") {
				t.Fatalf("got error %v", err)
			}
			if err == nil {
				if diff := cmp.Diff(test.want, string(got)); diff != "" {
					t.Errorf("authority (-want +got):\n%s", diff)
				}
			}
		})
	}
}
