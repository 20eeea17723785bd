// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/test/fakes"
)

var volumeRequest = ctrl.Request{NamespacedName: types.NamespacedName{Name: "a"}}

func released(pv *corev1.PersistentVolume, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv.Status.Phase = corev1.VolumeReleased
	for _, change := range change {
		change(pv)
	}
	return pv
}

// reboundVolume returns a local volume that is bound to the user's claim.
func reboundVolume() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "a",
			Annotations: map[string]string{volume.AnnotationProvisionedBy: "local.example.com"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	return rebound(pv, userClaim(), corev1.PersistentVolumeReclaimDelete)
}

// store creates the ShadowVolumeClaim of the user's claim on milan.
func (w *world) store(change ...func(*v1alpha1.ShadowVolumeClaim)) {
	w.t.Helper()
	kept := &v1alpha1.ShadowVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: milanSpace, Name: shadowName, UID: "uid-of-shadow",
		Annotations: map[string]string{v1alpha1.AnnotationOriginNamespace: "shop", volume.AnnotationOriginClaim: "data-db-0"},
	}}
	for _, change := range change {
		change(kept)
	}
	if _, err := w.milan.FederationV1alpha1().ShadowVolumeClaims(milanSpace).Create(w.t.Context(), kept,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.seen(func(cached *v1alpha1.ShadowVolumeClaim) bool { return cached != nil })
}

func TestLocalVolumeGetsItsClassAndPolicyBackInOnePatch(t *testing.T) {
	w := newWorld(t, released(reboundVolume()))
	if _, err := (&Releaser{Config: w.Config}).Reconcile(t.Context(), volumeRequest); err != nil {
		t.Fatal(err)
	}
	pv := get(w, "", "a", &corev1.PersistentVolume{})
	if pv.Spec.StorageClassName != "local" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		len(pv.Finalizers) > 0 || len(pv.Annotations) != 1 || len(w.writes()) != 1 {
		t.Errorf("the volume is %+v after %v", pv, w.writes())
	}
}

func TestVolumeIsReleasedOnlyWhenNothingHoldsIt(t *testing.T) {
	moved := func(phase v1alpha1.MovePhase) *v1alpha1.VirtualVolume {
		return &v1alpha1.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "another"},
			Status: v1alpha1.VirtualVolumeStatus{Move: &v1alpha1.MoveProgress{Phase: phase,
				Source: v1alpha1.VolumeLocation{VolumeName: "a"}}},
		}
	}
	for _, test := range []struct {
		name     string
		change   func(*corev1.PersistentVolume)
		object   client.Object
		released bool
	}{
		{name: "released", released: true},
		{name: "bound", change: func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }},
		{name: "available", change: func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeAvailable }},
		{name: "claim exists", object: userClaim()},
		{name: "another claim of that name", object: userClaim(func(claim *corev1.PersistentVolumeClaim) { claim.UID = "another" }), released: true},
		{name: "locked by a move", object: moved(v1alpha1.MoveLocking)},
		{name: "cleaned up by a move", object: moved(v1alpha1.MoveCleaning), released: true},
		{name: "a move that ended", object: moved(v1alpha1.MoveFailed), released: true},
		{name: "marked by a move", change: func(pv *corev1.PersistentVolume) { pv.Annotations[volume.LabelMove] = "m1" }},
		{name: "volume without the finalizer", change: func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			pv := released(reboundVolume())
			if test.change != nil {
				test.change(pv)
			}
			objects := []client.Object{pv}
			if test.object != nil {
				objects = append(objects, test.object)
			}
			w := newWorld(t, objects...)
			if _, err := (&Releaser{Config: w.Config}).Reconcile(t.Context(), volumeRequest); err != nil {
				t.Fatal(err)
			}
			if got := len(w.writes()) > 0; got != test.released {
				t.Errorf("released %t: %v", got, w.writes())
			}
		})
	}
}

func TestRemoteVolumeIsDeletedAfterTheProvidersClaimByItsPolicy(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy corev1.PersistentVolumeReclaimPolicy
		// delete is true if an administrator deletes the volume, and ends if the namespace of its claim is being deleted.
		delete, ends bool
		want         v1alpha1.VolumeDeletionPolicy
	}{
		{name: "Delete", policy: corev1.PersistentVolumeReclaimDelete, want: v1alpha1.VolumeDeletionDelete},
		{name: "Retain", policy: corev1.PersistentVolumeReclaimRetain},
		{name: "Retain, deleted by an administrator", policy: corev1.PersistentVolumeReclaimRetain, delete: true, want: v1alpha1.VolumeDeletionRetain},
		{name: "Retain, with its namespace", policy: corev1.PersistentVolumeReclaimRetain, ends: true, want: v1alpha1.VolumeDeletionRetain},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The process ends before or after each write, and a new one continues.
			for kill := -1; kill < 4; kill++ {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
				if test.ends {
					namespace.Finalizers = []string{"kubernetes"}
					namespace.DeletionTimestamp = ptr.To(metav1.Now())
				}
				w := newWorld(t, withMilan(namespace, released(stored("a", "ssd", "1Gi"), func(pv *corev1.PersistentVolume) {
					pv.Spec.PersistentVolumeReclaimPolicy = test.policy
				}))...)
				w.store()
				deleted := w.deletions()
				if test.delete {
					if err := w.Client.Delete(t.Context(), get(w, "", "a", &corev1.PersistentVolume{})); err != nil {
						t.Fatal(err)
					}
				}
				w.rome.Writes = nil
				w.rome.Kill(kill/2, kill%2 == 1)
				if kill < 0 {
					w.rome.Fault = nil
				}
				for range 6 {
					_, err := (&Releaser{Config: w.Config}).Reconcile(t.Context(), volumeRequest)
					if err != nil && !errors.Is(err, kittest.ErrKilled) {
						t.Fatal(err)
					}
				}
				if *deleted != test.want || (w.kept() == nil) != (test.want != "") {
					t.Errorf("kill %d: milan's claim was deleted with %q", kill, *deleted)
				}
				if test.want == "" {
					get(w, "", "a", &corev1.PersistentVolume{})
				} else {
					absent(w, "", "a", &corev1.PersistentVolume{})
				}
			}
		})
	}
}

func TestVolumeOfAProviderThatRefusesStaysUntilItsNamespaceIsDeleted(t *testing.T) {
	for _, missing := range []bool{false, true} {
		objects := withMilan(released(stored("a", "ssd", "1Gi")))
		if missing {
			mapped := objects[3].(*v1alpha1.NamespaceMap)
			mapped.Spec, mapped.Status = v1alpha1.NamespaceMapSpec{}, v1alpha1.NamespaceMapStatus{}
		}
		w := newWorld(t, objects...)
		fakes.React(w.milan, "get", "shadowvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(v1alpha1.Resource("shadowvolumeclaims"), shadowName, errors.New("no"))
		})
		releaser := &Releaser{Config: w.Config}
		for range 3 {
			if _, err := releaser.Reconcile(t.Context(), volumeRequest); err != nil {
				t.Fatal(err)
			}
		}
		if missing {
			absent(w, "", "a", &corev1.PersistentVolume{})
		} else {
			get(w, "", "a", &corev1.PersistentVolume{})
			w.expectEvent("Warning VolumeFailedDelete")
		}
	}
}

func TestUninstallationHandsAllVolumesBackAfterTheDriver(t *testing.T) {
	remoteOne := stored("b", "ssd", "1Gi")
	w := newWorld(t, virtual(), local(), driver(), capacity("liqo", "", 1, storageNS), reboundVolume(), remoteOne,
		userClaim(bound("a")))
	if err := HandBack(t.Context(), w.Client, "liqo", storageNS); err != nil {
		t.Fatal(err)
	}
	want := []string{"delete StorageClass", "delete CSIDriver", "delete CSIStorageCapacity", "patch PersistentVolume",
		"patch PersistentVolume"}
	if len(w.writes()) != len(want) {
		t.Errorf("writes %v", w.writes())
	}
	for i := range min(len(want), len(w.writes())) {
		if w.writes()[i] != want[i] {
			t.Errorf("write %d is %s, not %s", i, w.writes()[i], want[i])
		}
	}
	pv := get(w, "", "a", &corev1.PersistentVolume{})
	if pv.Spec.StorageClassName != "local" || len(pv.Finalizers) > 0 || pv.Spec.ClaimRef.UID != claimUID {
		t.Errorf("the volume is %+v", pv)
	}
	if pv := get(w, "", "b", &corev1.PersistentVolume{}); len(pv.Finalizers) > 0 || pv.Spec.StorageClassName != "liqo" {
		t.Errorf("the volume of milan is %+v", pv)
	}
	get(w, "", "local", &storagev1.StorageClass{})
	if err := HandBack(t.Context(), w.Client, "liqo", storageNS); err != nil || len(w.writes()) > len(want)+1 {
		t.Errorf("a second time: %v, %v", err, w.writes())
	}
}

func TestDataIsReleasedAsItsOwnerSelectedWhenOffloadingEnds(t *testing.T) {
	for _, test := range []struct {
		policy v1alpha1.UnoffloadPolicy
		shadow v1alpha1.VolumeDeletionPolicy
		event  string
		moves  bool
	}{
		{policy: v1alpha1.UnoffloadRefuse},
		{policy: ""},
		{policy: v1alpha1.UnoffloadMove, moves: true},
		{policy: v1alpha1.UnoffloadRetain, shadow: v1alpha1.VolumeDeletionRetain, event: "Warning VolumeLeftBehind The namespace is no longer offloaded to milan"},
		{policy: v1alpha1.UnoffloadDelete, shadow: v1alpha1.VolumeDeletionDelete, event: "Warning VolumeDeleted The namespace is no longer offloaded to milan"},
	} {
		t.Run(string(test.policy), func(t *testing.T) {
			w := newWorld(t, withMilan(virtual(), userClaim(bound("a")), stored("a", "ssd", "1Gi"), describedVolume())...)
			w.store()
			deleted := w.deletions()
			u, releaser := &Unoffloader{Config: w.Config}, &Releaser{Config: w.Config}
			offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			offloading.Spec.Volumes.OnUnoffload = test.policy
			for range 6 {
				// The offloading controller releases volumes only while Held returns some.
				held, err := u.Held(t.Context(), "shop", "milan")
				if err != nil {
					t.Fatal(err)
				}
				if len(held) == 0 {
					break
				}
				if err := u.Release(t.Context(), offloading, "milan"); err != nil {
					t.Fatal(err)
				}
				// Kubernetes sets a volume to Released if its claimRef has another UID than the claim.
				var pv corev1.PersistentVolume
				if err := w.Client.Get(t.Context(), volumeRequest.NamespacedName, &pv); err == nil &&
					pv.Spec.ClaimRef.UID != claimUID && pv.Status.Phase == corev1.VolumeBound {
					change(w, "", "a", &pv, func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased })
				}
				if _, err := releaser.Reconcile(t.Context(), volumeRequest); err != nil {
					t.Fatal(err)
				}
			}
			held, err := u.Held(t.Context(), "shop", "milan")
			if err != nil || (len(held) == 0) != (test.shadow != "") || *deleted != test.shadow {
				t.Errorf("held %v, %v; milan's claim was deleted with %q", held, err, *deleted)
			}
			move := get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{}).Spec.Move
			if (move != nil) != test.moves || move != nil && (!move.Target.Local || move.ID == "") {
				t.Errorf("move %+v", move)
			}
			if test.event != "" {
				w.expectEvent(test.event)
			}
		})
	}
}

func TestKeptVolumesAreLeftToTheProviderUnlessTheyRefuseUnoffloading(t *testing.T) {
	for _, policy := range []v1alpha1.UnoffloadPolicy{
		"", v1alpha1.UnoffloadRefuse, v1alpha1.UnoffloadMove, v1alpha1.UnoffloadRetain, v1alpha1.UnoffloadDelete,
	} {
		t.Run(string(policy), func(t *testing.T) {
			kept := released(stored("a", "ssd", "1Gi"), func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			})
			w := newWorld(t, withMilan(virtual(), kept, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})...)
			w.store()
			deleted := w.deletions()
			offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			offloading.Spec.Volumes.OnUnoffload = policy
			u, releaser := &Unoffloader{Config: w.Config}, &Releaser{Config: w.Config}
			for range 6 {
				if err := u.Release(t.Context(), offloading, "milan"); err != nil {
					t.Fatal(err)
				}
				if _, err := releaser.Reconcile(t.Context(), volumeRequest); err != nil {
					t.Fatal(err)
				}
			}
			held, err := u.Held(t.Context(), "shop", "milan")
			if err != nil {
				t.Fatal(err)
			}
			if policy == "" || policy == v1alpha1.UnoffloadRefuse {
				if *deleted != "" || len(held) != 1 || held[0] != "PersistentVolume a" {
					t.Errorf("held %v; milan's claim was deleted with %q", held, *deleted)
				}
				return
			}
			if *deleted != v1alpha1.VolumeDeletionRetain || len(held) > 0 {
				t.Errorf("held %v; milan's claim was deleted with %q", held, *deleted)
			}
		})
	}
}
