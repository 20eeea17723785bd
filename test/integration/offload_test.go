// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

func TestOffloadThroughTheAggregator(t *testing.T) {
	env := framework.Get(t)
	ctx := t.Context()
	namespace := env.MakeNamespace(t)
	client := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1()
	offloadings := client.NamespaceOffloadings(namespace)

	dry, err := offloadings.CreateOffload(ctx, "offloading", &v1alpha1.Offload{},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Spec.PodOffloadingStrategy != v1alpha1.LocalAndRemote {
		t.Errorf("a dry run is answered with %+v, %v", dry, err)
	}
	_, err = offloadings.CreateOffload(ctx, "other", &v1alpha1.Offload{}, metav1.CreateOptions{})
	expectCause(t, err, "metadata.name")
	_, err = offloadings.CreateOffload(ctx, "offloading",
		&v1alpha1.Offload{Spec: v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: "Somewhere"}}, metav1.CreateOptions{})
	expectCause(t, err, "spec.podOffloadingStrategy")
	if _, err := offloadings.Get(ctx, "offloading", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("something is left behind: %v", err)
	}
	labelled := func() bool {
		object, err := env.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return object.Labels[v1alpha1.LabelSchedulingEnabled] == "true"
	}
	if labelled() {
		t.Error("the namespace is labelled already")
	}

	first, err := offloadings.CreateOffload(ctx, "offloading", &v1alpha1.Offload{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !labelled() {
		t.Error("the namespace is not labelled")
	}
	again, err := offloadings.CreateOffload(ctx, "offloading", &v1alpha1.Offload{}, metav1.CreateOptions{})
	if err != nil || again.ResourceVersion != first.ResourceVersion || again.UID != first.UID {
		t.Errorf("the same again is answered with %v, %v", again, err)
	}
	_, err = offloadings.CreateOffload(ctx, "offloading",
		&v1alpha1.Offload{Spec: v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Local}},
		metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "spec.podOffloadingStrategy")

	env.Kubectl(t, "", "patch", "nsof", "offloading", "--namespace="+namespace, "--subresource=offload", "--type=merge",
		"--patch", `{"spec":{"podOffloadingStrategy":"Remote"}}`)
	if got, err := offloadings.GetOffload(ctx, "offloading", metav1.GetOptions{}); err != nil ||
		got.Spec.PodOffloadingStrategy != v1alpha1.Remote {
		t.Errorf("the offload is %+v, %v", got, err)
	}
	if table := env.Kubectl(t, "", "get", "nsof", "offloading", "--namespace="+namespace,
		"--subresource=offload"); !strings.Contains(table, "MAPPING") || !strings.Contains(table, "Remote") {
		t.Errorf("kubectl prints\n%s", table)
	}
	path := "/apis/federation.liqo.io/v1alpha1/namespaces/" + namespace + "/namespaceoffloadings/offloading/offload"
	env.Kubectl(t, "", "delete", "--raw", path)
	going, err := offloadings.Get(ctx, "offloading", metav1.GetOptions{})
	if err != nil || going.DeletionTimestamp == nil {
		t.Errorf("the offloading is %+v, %v", going, err)
	}
	if _, err := offloadings.Patch(ctx, "offloading", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	_, err = offloadings.GetOffload(ctx, "offloading", metav1.GetOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "offloading")
}

func TestSystemNamespacesAreNeverOffloaded(t *testing.T) {
	env := framework.Get(t)
	client := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1()
	for _, namespace := range []string{metav1.NamespaceSystem, framework.Namespace, framework.InvitationNamespace} {
		_, err := client.NamespaceOffloadings(namespace).CreateOffload(t.Context(), "offloading", &v1alpha1.Offload{},
			metav1.CreateOptions{})
		subresourcetest.ExpectStatus(t, err, http.StatusForbidden, namespace)
		_, err = client.NamespaceOffloadings(namespace).Create(t.Context(),
			&v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading"}}, metav1.CreateOptions{})
		subresourcetest.ExpectStatus(t, err, http.StatusForbidden, namespace)
		_, err = client.NamespaceOffloadings(namespace).Patch(t.Context(), "offloading", types.ApplyPatchType,
			encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "NamespaceOffloading",
				"metadata": fields{"name": "offloading"}}), metav1.PatchOptions{FieldManager: "test"})
		subresourcetest.ExpectStatus(t, err, http.StatusForbidden, namespace)
	}
}
