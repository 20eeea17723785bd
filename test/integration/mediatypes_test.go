// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

// The namespace controller deletes all objects in a namespace with such a client. If it fails,
// namespaces stay terminating.
func TestACollectionIsDeletedForAClientThatPrefersProtobuf(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	env.Kubectl(t, `
apiVersion: federation.liqo.io/v1alpha1
kind: ResourceRequest
metadata: {name: rome}
`, "create", "-n", namespace, "-f", "-")

	client, err := metadata.NewForConfig(metadata.ConfigFor(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	requests := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("resourcerequests")).Namespace(namespace)
	listed, err := requests.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing metadata: %v", err)
	}
	if len(listed.Items) != 1 || listed.Items[0].Name != "rome" {
		t.Fatalf("listed %v, want the request rome", listed.Items)
	}
	if err := requests.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatalf("deleting the collection: %v", err)
	}
	listed, err = requests.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(listed.Items) != 0 {
		t.Errorf("%v are left after the collection was deleted", listed.Items)
	}
}
