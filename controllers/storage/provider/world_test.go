// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	remoteNamespace = "shop-rome"
	claimName       = "data-db-0-0a1b2c3d"
	volumeName      = "pvc-1"
	protection      = "kubernetes.io/pvc-protection"
)

var key = types.NamespacedName{Namespace: remoteNamespace, Name: claimName}

// world is a provider's cluster with the controller of this package.
type world struct {
	*kittest.Cluster
	t          *testing.T
	reconciler *Reconciler
}

// aNamespace returns the remote namespace of the tests.
func aNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: remoteNamespace,
		Labels: map[string]string{
			v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: "rome",
			v1alpha1.LabelOrigin: "rome-id", v1alpha1.LabelDestination: "milan-id",
		},
		Annotations: map[string]string{v1alpha1.AnnotationOriginNamespace: "shop"},
	}}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, Cluster: kittest.New(t, append(objects, aNamespace(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "worker"},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-1"}},
		})...)}
	w.restart()
	return w
}

// restart starts a new process of the controller, without state in memory.
func (w *world) restart() {
	w.reconciler = &Reconciler{Client: w.Controller, Live: w, Events: w.Events, Clock: w.Clock}
}

// pass reconciles the ShadowVolumeClaim once.
func (w *world) pass() (time.Duration, error) {
	result, err := w.reconciler.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	return result.RequeueAfter, err
}

// settle reconciles and calls cluster until neither writes.
func (w *world) settle() {
	w.t.Helper()
	for range 60 {
		before := len(w.Writes)
		if _, err := w.pass(); err != nil {
			if !errors.Is(err, kittest.ErrKilled) {
				w.t.Fatal(err)
			}
			w.restart()
			continue
		}
		if acted := w.cluster(); !acted && len(w.Writes) == before {
			return
		}
	}
	w.t.Fatalf("does not settle: %v", w.Writes)
}

// cluster does the next step of Kubernetes' controllers and a provisioner, and reports whether there was one.
func (w *world) cluster() bool {
	w.t.Helper()
	claim, pv := w.claim(), w.pv()
	switch {
	case claim != nil && claim.Labels[v1alpha1.LabelManagedBy] == "":
		return false
	case claim != nil && controllerutil.AddFinalizer(claim, protection) && claim.DeletionTimestamp.IsZero():
		w.must(w.Update(w.t.Context(), claim))
	case claim != nil && !claim.DeletionTimestamp.IsZero():
		controllerutil.RemoveFinalizer(claim, protection)
		w.must(w.Update(w.t.Context(), claim))
	case claim != nil && claim.Spec.VolumeName == "" && pv == nil:
		w.must(w.Create(w.t.Context(), boundVolume(claim.UID)))
	case claim != nil && claim.Spec.VolumeName == "":
		claim.Spec.VolumeName = volumeName
		w.must(w.Update(w.t.Context(), claim))
	case claim != nil && claim.Status.Phase == "" && pv != nil:
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
		w.must(w.Status().Update(w.t.Context(), claim))
	case claim != nil && claim.Status.Phase == corev1.ClaimBound &&
		claim.Status.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) < 0:
		claim.Status.Capacity = claim.Spec.Resources.Requests
		w.must(w.Status().Update(w.t.Context(), claim))
	case claim == nil && pv != nil && pv.Status.Phase != corev1.VolumeReleased:
		pv.Status.Phase = corev1.VolumeReleased
		w.must(w.Status().Update(w.t.Context(), pv))
	case claim == nil && pv != nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		w.must(w.Delete(w.t.Context(), pv))
	default:
		return false
	}
	return true
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func read[T client.Object](w *world, key types.NamespacedName, object T) (T, bool) {
	w.t.Helper()
	err := w.Get(w.t.Context(), key, object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return object, err == nil
}

// shadow, claim and pv return the objects in the API server; nil if they do not exist.
func (w *world) shadow() *v1alpha1.ShadowVolumeClaim {
	w.t.Helper()
	if shadow, ok := read(w, key, &v1alpha1.ShadowVolumeClaim{}); ok {
		return shadow
	}
	return nil
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	w.t.Helper()
	if claim, ok := read(w, key, &corev1.PersistentVolumeClaim{}); ok {
		return claim
	}
	return nil
}

func (w *world) pv() *corev1.PersistentVolume {
	w.t.Helper()
	if pv, ok := read(w, types.NamespacedName{Name: volumeName}, &corev1.PersistentVolume{}); ok {
		return pv
	}
	return nil
}

func (w *world) change(change func(*v1alpha1.ShadowVolumeClaim)) {
	w.t.Helper()
	shadow := w.shadow()
	change(shadow)
	w.must(w.Update(w.t.Context(), shadow))
}

func aClass(mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, VolumeBindingMode: ptr.To(mode)}
}

func aShadow(changes ...func(*v1alpha1.ShadowVolumeClaim)) *v1alpha1.ShadowVolumeClaim {
	shadow := &v1alpha1.ShadowVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName, Namespace: remoteNamespace, UID: "shadow", Finalizers: []string{v1alpha1.Finalizer},
			Annotations: map[string]string{volume.AnnotationOriginClaim: "data-db-0"},
		},
		Spec: v1alpha1.ShadowVolumeClaimSpec{
			StorageClassName: "fast", Storage: resource.MustParse("1Gi"),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
	}
	for _, change := range changes {
		change(shadow)
	}
	return shadow
}

func aClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := claimFor(aShadow(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{v1alpha1.LabelForeignCluster: "rome", v1alpha1.LabelOrigin: "rome-id",
			v1alpha1.LabelDestination: "milan-id"},
		Annotations: map[string]string{v1alpha1.AnnotationOriginNamespace: "shop"},
	}})
	claim.UID = "claim"
	for _, change := range changes {
		change(claim)
	}
	return claim
}

func boundClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.VolumeName = volumeName
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

func boundVolume(claim types.UID, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName, UID: "volume"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Namespace: remoteNamespace, Name: claimName, UID: claim},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, change := range changes {
		change(pv)
	}
	return pv
}

func aPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: remoteNamespace, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: "worker", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}
