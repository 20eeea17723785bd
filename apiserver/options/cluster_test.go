// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
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
			client.PrependReactor("get", "namespaces",
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
		"broken":    {err: errors.New("connection\nreset"), want: "connection reset"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(test.objects...)
			if test.err != nil {
				client.PrependReactor("get", "configmaps",
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
