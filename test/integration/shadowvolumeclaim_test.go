// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

func newShadowVolumeClaim(name, class, size string) *v1alpha1.ShadowVolumeClaim {
	return &v1alpha1.ShadowVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ShadowVolumeClaimSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Storage: resource.MustParse(size),
		},
	}
}

func TestShadowVolumeClaims(t *testing.T) {
	lifecycle{
		kind: "ShadowVolumeClaim", resource: "shadowvolumeclaims", short: "shvc", name: "data-db-0-1234abcd", held: true,
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      fields{"storageClassName": "fast", "accessModes": []any{"ReadWriteOnce"}, "storage": "1Gi"},
		change:    fields{"storage": "2Gi", "deletionPolicy": "Delete", "fence": "m-1"},
		status: fields{"phase": "Bound", "volumeName": "pvc-1", "capacity": "2Gi", "pods": []any{"db-0"},
			"fence": fields{"id": "m-1", "users": []any{"db-0"}}},
		header: []string{"STATUS", "CLASS", "CAPACITY", "POLICY", "AGE", "CONSUMER", "VOLUME"},
		row:    []string{"Bound", "fast", "2Gi", "Delete", "<none>", "pvc-1"},
		badSpecs: map[string]fields{
			"spec.storage": {"storage": "0"}, "spec.accessModes[0]": {"accessModes": []any{"ReadSometimes"}},
			"spec.storageClassName": {"storageClassName": "a/b"}, "spec.deletionPolicy": {"deletionPolicy": "Recycle"},
			"spec.fence": {"fence": "a/b"},
		},
		badStatuses: map[string]fields{
			"status.phase": {"phase": "Great"}, "status.capacity": {"capacity": "2Ei"}, "status.pods[0]": {"pods": []any{"a/b"}},
			"status.fence.id": {"fence": fields{"id": "a/b"}},
		},
	}.run(t)
}

func TestPeerStoresWithinItsStorageQuota(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	biella, novara := makeTenancy(t, env, "biella"), makeTenancy(t, env, "novara")
	admin := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1()
	tenant := naming.TenantNamespace("biella")
	must(t)(admin.ResourceOffers(tenant).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "storage"},
		Spec: v1alpha1.ResourceOfferSpec{
			ClusterID: thisID, Resources: amounts("cpu", "1"), Storage: amounts("requests.storage", "10Gi"),
			StorageClasses: []string{"slow", "fast"},
		},
	}, metav1.CreateOptions{}))
	peer := versioned.NewForConfigOrDie(env.User(t, biella.user, v1alpha1.PeerGroup)).FederationV1alpha1()
	create := func(namespace, name, class, size string) error {
		_, err := peer.ShadowVolumeClaims(namespace).Create(t.Context(), newShadowVolumeClaim(name, class, size),
			metav1.CreateOptions{})
		return err
	}
	patch := func(name, body string, subresource ...string) error {
		_, err := peer.ShadowVolumeClaims(biella.remote).Patch(t.Context(), name, types.MergePatchType, []byte(body),
			metav1.PatchOptions{}, subresource...)
		return err
	}
	exceeded := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, v1alpha1.CauseStorageExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}

	exceeded("before the offer is accepted", create(biella.remote, "a", "fast", "1Gi"))
	accept(t, versioned.NewForConfigOrDie(env.Admin), tenant, "storage")
	if err := create(biella.remote, "a", "fast", "6Gi"); err != nil {
		t.Fatal(err)
	}
	exceeded("a claim beyond the quota", create(biella.remote, "b", "slow", "5Gi"))
	exceeded("growth beyond the quota", patch("a", `{"spec":{"storage":"11Gi"}}`))
	if err := patch("a", `{"spec":{"storage":"7Gi"}}`); err != nil {
		t.Errorf("growth within the quota: %v", err)
	}

	var status apierrors.APIStatus
	if err := create(biella.remote, "b", "secret", "1Gi"); !errors.As(err, &status) || !apierrors.IsInvalid(err) ||
		!slices.ContainsFunc(status.Status().Details.Causes,
			func(cause metav1.StatusCause) bool { return cause.Field == "spec.storageClassName" }) {
		t.Errorf("a class that is not offered: %v", err)
	}

	for what, err := range map[string]error{
		"a claim of another consumer":       create(novara.remote, "a", "fast", "1Gi"),
		"a claim outside remote namespaces": create(env.MakeNamespace(t), "a", "fast", "1Gi"),
		"the status of a claim":             patch("a", `{"status":{"phase":"Lost"}}`, "status"),
		"all its claims in one request": peer.ShadowVolumeClaims(biella.remote).DeleteCollection(t.Context(),
			metav1.DeleteOptions{}, metav1.ListOptions{}),
		"PersistentVolumeClaims": claimOf(t, env, biella),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a peer reaches %s: %v", what, err)
		}
	}

	if err := patch("a", `{"metadata":{"finalizers":[]}}`); err != nil {
		t.Fatal(err)
	}
	if err := peer.ShadowVolumeClaims(biella.remote).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := peer.ShadowVolumeClaims(biella.remote).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{v1alpha1.Finalizer}, left.Finalizers); diff != "" ||
		left.Status.ForeignCluster != "biella" {
		t.Errorf("the claim counts against %q; finalizers (-want +got):\n%s", left.Status.ForeignCluster, diff)
	}
	exceeded("while the volume is not released", create(biella.remote, "b", "slow", "5Gi"))
	volumes := env.Kube.CoreV1().PersistentVolumes()
	retained := hostVolume("volume-retained-for-biella")
	retained.Labels = volume.Retained("biella")
	must(t)(volumes.Create(t.Context(), retained, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return volumes.Delete(ctx, retained.Name, metav1.DeleteOptions{})
	})
	must(t)(admin.ShadowVolumeClaims(biella.remote).Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":[]}}`), metav1.PatchOptions{}))
	err = create(biella.remote, "b", "slow", "10Gi")
	exceeded("while a volume is retained", err)
	if err != nil && !strings.HasSuffix(err.Error(), "take over: "+retained.Name) {
		t.Errorf("the error does not name the retained volume: %v", err)
	}
	must(t)(volumes.Patch(t.Context(), retained.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+v1alpha1.LabelForeignCluster+`":null}}}`), metav1.PatchOptions{}))
	if err := create(biella.remote, "b", "slow", "10Gi"); err != nil {
		t.Errorf("after the volume was taken over: %v", err)
	}
}

// claimOf creates a PersistentVolumeClaim in a remote namespace as its consumer, and returns the
// error.
func claimOf(t *testing.T, env *framework.Environment, consumer tenancy) error {
	t.Helper()
	kube, err := kubernetes.NewForConfig(env.User(t, consumer.user, v1alpha1.PeerGroup))
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoreV1().PersistentVolumeClaims(consumer.remote).List(t.Context(), metav1.ListOptions{})
	return err
}
