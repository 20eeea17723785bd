// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes/fake"
)

func TestNobodyIsLetInOnlyOnHealthPaths(t *testing.T) {
	broken := errors.New("no such token")
	for name, test := range map[string]struct {
		path, user string
		err        error
		want       bool
	}{
		"nobody on /healthz":                   {path: "/healthz", user: user.Anonymous, want: true},
		"nobody on /livez":                     {path: "/livez", user: user.Anonymous, want: true},
		"nobody on /readyz":                    {path: "/readyz?verbose", user: user.Anonymous, want: true},
		"nobody beneath a health path":         {path: "/readyz/caches", user: user.Anonymous},
		"nobody on /metrics":                   {path: "/metrics", user: user.Anonymous},
		"nobody on what the roles let him see": {path: "/version", user: user.Anonymous},
		"nobody on a path that there is not":   {path: "/nothing", user: user.Anonymous},
		"somebody on /metrics":                 {path: "/metrics", user: "somebody", want: true},
		"wrong credentials on a health path":   {path: "/livez", err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			delegate := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: test.user}}, test.err == nil, test.err
			})
			request := httptest.NewRequest(http.MethodGet, test.path, nil)
			_, ok, err := anonymousOnlyOnHealthPaths(delegate).AuthenticateRequest(request)
			if ok != test.want || !errors.Is(err, test.err) {
				t.Errorf("let in: %v, error: %v", ok, err)
			}
		})
	}
}

func authorities(data map[string]string) *fake.Clientset {
	return fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authenticationConfigMap},
		Data:       data,
	})
}

func TestItIsNotReadyBeforeTheAuthorityOfCertificatesIsRead(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	authority, err := clientAuthority(t.Context(), authorities(map[string]string{clientCAKey: string(bundle)}))
	if err != nil {
		t.Fatal(err)
	}
	if loaded(authority) == nil {
		t.Fatal("it is loaded before it was read")
	}
	go authority.(dynamiccertificates.ControllerRunner).Run(t.Context(), 1)
	err = utilwait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return loaded(authority) == nil, nil
	})
	if err != nil {
		t.Errorf("it is never loaded: %v", loaded(authority))
	}
}

func TestAClusterThatKnowsNobodyByACertificateIsNotWaitedFor(t *testing.T) {
	authority, err := clientAuthority(t.Context(), authorities(nil))
	if err != nil || authority != nil {
		t.Fatalf("got authority %v and error %v, want neither", authority, err)
	}
	if err := loaded(nil); err != nil {
		t.Error(err)
	}
}

func TestWithoutTheConfigMapOfAuthoritiesNothingStarts(t *testing.T) {
	if _, err := clientAuthority(t.Context(), fake.NewClientset()); err == nil {
		t.Error("it starts without knowing whose certificates count")
	}
}
