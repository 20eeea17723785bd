// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestServicesOfOtherNamespacesAreNotWatched(t *testing.T) {
	service := func(namespace string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
	}
	changes, complete := make(chan string, 10), make(chan string, 10)
	services := NewServices(fake.NewClientset(service("web"), service("other")), cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { changes <- object.(*corev1.Service).Namespace },
	}, func(namespace string) { complete <- namespace })
	if _, err := services.Of(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	for what, calls := range map[string]chan string{"a change": changes, "completion": complete} {
		select {
		case namespace := <-calls:
			if namespace != "web" {
				t.Errorf("%s of %s is reported", what, namespace)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s is not reported", what)
		}
	}
	watched, err := services.Of(t.Context(), "web")
	if err != nil || watched == nil {
		t.Fatalf("the Services of web are %v, error %v", watched, err)
	}
	if found, err := watched.Services.Get("db"); err != nil || found.Namespace != "web" {
		t.Errorf("found %v, error %v", found, err)
	}
	if len(changes)+len(complete) > 0 {
		t.Error("something is reported twice, or of another namespace")
	}
	services.Forget("web")
	if services.find("web") != nil {
		t.Error("the watch of a namespace that was forgotten goes on")
	}
}
