// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clientca

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

func clusterWith(data map[string]string) *fake.Clientset {
	return fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
		Name: ConfigMap}, Data: data})
}

func TestAnAuthorityIsNotLoadedBeforeItIsRead(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	authority, err := New(t.Context(), clusterWith(map[string]string{Key: string(bundle)}))
	if err != nil {
		t.Fatal(err)
	}
	if Loaded(authority) == nil {
		t.Fatal("it is loaded before it was read")
	}
	go authority.Run(t.Context(), 1)
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return Loaded(authority) == nil, nil
		})
	if err != nil {
		t.Errorf("it is never loaded: %v", Loaded(authority))
	}
}

func TestClusterWithoutClientCertificatesHasNoAuthority(t *testing.T) {
	authority, err := New(t.Context(), clusterWith(nil))
	if err != nil || authority != nil {
		t.Fatalf("got authority %v and error %v, want neither", authority, err)
	}
	if err := Loaded(nil); err != nil {
		t.Error(err)
	}
}

func TestMissingConfigMapIsAnError(t *testing.T) {
	if _, err := New(t.Context(), fake.NewClientset()); err == nil {
		t.Error("no error without the ConfigMap")
	}
}
