// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func deleting(policy v1alpha1.VolumeDeletionPolicy) func(*v1alpha1.ShadowVolumeClaim) {
	return func(s *v1alpha1.ShadowVolumeClaim) {
		s.DeletionTimestamp = &metav1.Time{Time: kittest.Epoch}
		s.Spec.DeletionPolicy = policy
	}
}

func TestDeletionKeepsOrDeletesTheData(t *testing.T) {
	class := aClass(storagev1.VolumeBindingImmediate)
	retainingClass := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		retainedVolume(pv)
	}
	released := func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }
	for _, test := range []struct {
		name    string
		objects []client.Object
		// removed and volume are whether the ShadowVolumeClaim is removed and whether the volume exists at the end.
		removed, volume bool
		event           string
		condition       string
	}{
		{name: "retain", objects: []client.Object{aShadow(wasBound, deleting("")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true, volume: true, event: "Normal VolumeRetained"},
		{name: "retain, not retained yet", objects: []client.Object{aShadow(wasBound, deleting("Retain")), aClaim(boundClaim), boundVolume("claim")}, removed: true, volume: true, event: "Normal VolumeRetained"},
		{name: "delete", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, the class retains", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainingClass)}, removed: true, volume: true, event: "Warning VolumeRetained"},
		{name: "delete, in use", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume), aPod("db-0")}, volume: true, condition: "True InUse"},
		{name: "delete, pod ended", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim),
			boundVolume("claim", retainedVolume),
			aPod("db-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, removed: true},
		{name: "delete, never bound", objects: []client.Object{aShadow(deleting("Delete"))}, removed: true},
		{name: "delete, lost", objects: []client.Object{aShadow(wasBound, deleting("Delete")), boundVolume("former", retainedVolume, released)}, removed: true},
		{name: "delete, a volume that was never retained",
			objects: []client.Object{aShadow(deleting("Delete")), boundVolume("former", released,
				func(pv *corev1.PersistentVolume) {
					pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				})}, removed: true, volume: true},
		{name: "delete, volume released by an earlier ShadowVolumeClaim of the name",
			objects: []client.Object{aShadow(deleting("Delete")),
				boundVolume("former", retainedVolume, released)}, removed: true, volume: true},
		{name: "delete, bound and not recorded", objects: []client.Object{aShadow(deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, being bound", objects: []client.Object{aShadow(deleting("Delete")),
			aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName = volumeName
			}), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, another claim of the name", objects: []client.Object{aShadow(deleting("Delete")),
			aClaim(boundClaim, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }), boundVolume("claim")},
			removed: true, volume: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, class)...)
			w.settle()
			if removed := w.shadow() == nil; removed != test.removed {
				t.Errorf("removed: %v, want %v", removed, test.removed)
			}
			if kept := w.pv() != nil; kept != test.volume {
				t.Errorf("volume kept: %v, want %v", kept, test.volume)
			}
			if shadow := w.shadow(); shadow != nil && conditionOf(t, shadow, v1alpha1.ConditionVolumeBound) != test.condition {
				t.Errorf("VolumeBound is %q, want %q", conditionOf(t, shadow, v1alpha1.ConditionVolumeBound), test.condition)
			}
			if got := w.event(); !strings.HasPrefix(got, test.event) || test.event == "" && got != "" {
				t.Errorf("event %q, want %q", got, test.event)
			}
		})
	}
}

func TestVolumeThatCannotBeDeletedIsReported(t *testing.T) {
	w := newWorld(t, aShadow(wasBound, deleting("Delete")), boundVolume("former", retainedVolume,
		func(pv *corev1.PersistentVolume) {
			pv.Status.Phase, pv.Status.Message = corev1.VolumeFailed, "the disk is attached"
		}))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if got := conditionOf(t, w.shadow(), v1alpha1.ConditionVolumeBound); got != "False DeletionFailed" {
		t.Errorf("VolumeBound is %q", got)
	}
}

func TestClaimWithoutShadowVolumeClaimIsReportedAndKept(t *testing.T) {
	w := newWorld(t, aClass(storagev1.VolumeBindingImmediate), aClaim(boundClaim), boundVolume("claim", retainedVolume))
	for range 2 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.event(); !strings.HasPrefix(got, "Warning ShadowVolumeClaimMissing") {
		t.Errorf("event %q", got)
	}
	if got := w.event(); got != "" {
		t.Errorf("a second event %q", got)
	}
	if len(w.reconciler.orphans.byClaim) != 1 || w.claim() == nil || len(w.Writes) > 0 {
		t.Errorf("orphans %v, claim %v, writes %v", w.reconciler.orphans.byClaim, w.claim(), w.Writes)
	}
	w.must(w.Create(t.Context(), aShadow()))
	w.settle()
	if len(w.reconciler.orphans.byClaim) > 0 || w.shadow().Status.Phase != v1alpha1.ShadowVolumeClaimBound {
		t.Errorf("orphans %v, phase %q: it was not adopted", w.reconciler.orphans.byClaim, w.shadow().Status.Phase)
	}
}
