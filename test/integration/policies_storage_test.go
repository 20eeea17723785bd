// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/integration/framework"
)

// By its role, the controller manager could patch every PersistentVolume.
func TestPolicyKeepsTheControllerManagerToVolumesOfTheFederation(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	// The account has all permissions, so that only the policy can refuse requests.
	bindEverywhere(t, env, "volumes-of-the-federation", "cluster-admin",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace})
	volumes := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).CoreV1().PersistentVolumes()

	create := func(name string, change func(*corev1.PersistentVolume)) string {
		pv := hostVolume(name)
		change(pv)
		must(t)(env.Kube.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}))
		undo(t, func(ctx context.Context) error {
			return env.Kube.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{})
		})
		return name
	}
	annotate := func(key, value string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&pv.ObjectMeta, key, value) }
	}
	remoteSource := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{ClusterID: thatID, Namespace: "shop",
			Claim: "data"})
	}
	ordinary := create("volume-of-a-user", func(*corev1.PersistentVolume) {})
	retained := create("volume-of-a-consumer", func(pv *corev1.PersistentVolume) {
		annotate(volume.AnnotationReclaimPolicy, "Delete")(pv)
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	released := create("volume-that-counts", func(pv *corev1.PersistentVolume) {
		maps.Copy(pv.Labels, volume.Retained("rome"))
	})
	kept := create("volume-that-its-class-retains", func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	intermediate := create("volume-of-an-intermediate-claim",
		func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.Namespace = "liqo-storage" })
	virtual := create("volume-of-the-virtual-class", annotate(volume.AnnotationStorageClass, "fast"))
	remote := create("volume-on-a-provider", remoteSource)

	patch := func(name, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := volumes.Patch(ctx, name, types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	make := func(change func(*corev1.PersistentVolume)) func(context.Context) error {
		return func(ctx context.Context) error {
			pv := hostVolume("new-volume")
			change(pv)
			_, err := volumes.Create(ctx, pv, dryCreate)
			return err
		}
	}
	remove := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return volumes.Delete(ctx, name, dryDelete) }
	}
	const (
		retain = `{"metadata":{"labels":{"federation.liqo.io/foreign-cluster":"rome"},` +
			`"annotations":{"storage.liqo.io/reclaim-policy":"Delete"}},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`
		rebind = `{"metadata":{"annotations":{"storage.liqo.io/storage-class":"fast"}},` +
			`"spec":{"storageClassName":"liqo","claimRef":{"namespace":"shop","name":"data","uid":"u"}}}`
		deletes = `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`
		claim   = "must keep its claim and class"
		marks   = "only the labels and the annotation of its consumer"
		policy  = "must be the former reclaim policy"
		created = "created and deleted"
	)
	expect(t, []attempt{
		{"retains a volume", "", patch(ordinary, retain)},
		{"restores the policy of a volume", "", patch(retained, deletes)},
		{"counts a volume towards a quota", "", patch(ordinary, `{"metadata":{"labels":{"storage.liqo.io/retained":"true"}}}`)},
		{"counts a volume no longer", "", patch(released, `{"metadata":{"labels":{"storage.liqo.io/retained":null}}}`)},
		{"takes a volume from its consumer", marks, patch(released, `{"metadata":{"labels":{"federation.liqo.io/foreign-cluster":null}}}`)},
		{"deletes a volume that its class retains", "to its former value only", patch(kept, deletes)},
		{"sets a wrong former policy of a volume", policy, patch(kept, retain)},
		{"changes the former policy of a volume", policy, patch(retained, `{"metadata":{"annotations":{"storage.liqo.io/reclaim-policy":"Recycle"}}}`)},
		{"binds a volume to another claim", claim, patch(ordinary, `{"spec":{"claimRef":{"namespace":"shop","name":"data","uid":"u"}}}`)},
		{"unbinds a volume", claim, patch(retained, `{"spec":{"claimRef":null}}`)},
		{"takes a volume into the virtual class", claim, patch(ordinary, rebind)},
		{"marks a volume as one of the virtual class", marks, patch(ordinary, `{"metadata":{"annotations":{"storage.liqo.io/storage-class":"fast"}}}`)},
		{"sets other labels of a volume", marks, patch(ordinary, `{"metadata":{"labels":{"app":"db"}}}`)},
		{"changes how a volume is mounted", "mount options", patch(virtual, `{"spec":{"mountOptions":["suid"]}}`)},
		{"rebinds the volume of an intermediate claim", "", patch(intermediate, rebind)},
		{"moves a volume of the virtual class", "", patch(virtual, `{"spec":{"claimRef":{"namespace":"db","name":"mover","uid":"u"}}}`)},
		{"binds a volume to a claim of another namespace", "claims of its namespace", patch(virtual, `{"spec":{"claimRef":{"namespace":"shop","name":"mover","uid":"u"}}}`)},
		{"changes a volume on a provider", "", patch(remote, `{"spec":{"capacity":{"storage":"2Gi"}}}`)},
		{"creates a volume on a provider", "", make(remoteSource)},
		{"creates another volume", created, make(func(*corev1.PersistentVolume) {})},
		{"deletes a volume on a provider", "", remove(remote)},
		{"deletes another volume", created, remove(virtual)},
	})
}

// hostVolume returns a bound PersistentVolume of class fast with reclaim policy Delete.
func hostVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelForeignCluster: "rome"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "db",
				Name: "data", UID: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
}
