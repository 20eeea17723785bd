// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

// TestVolumeSurvivesACrashAtEachWrite creates, expands, fences and deletes a claim once for each write, before or after
// which the process ends.
func TestVolumeSurvivesACrashAtEachWrite(t *testing.T) {
	for _, policy := range []v1alpha1.VolumeDeletionPolicy{v1alpha1.VolumeDeletionRetain, v1alpha1.VolumeDeletionDelete} {
		undisturbed := liveThrough(t, policy, nil)
		for write := range undisturbed {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/write %d, after it %v", policy, write, after), func(t *testing.T) {
					crashed := false
					liveThrough(t, policy, func(w *kittest.Cluster, then bool) error {
						if crashed || len(w.Writes) != write+1 || then != after {
							return nil
						}
						crashed = true
						return kittest.ErrKilled
					})
					if !crashed {
						t.Error("the process did not crash")
					}
				})
			}
		}
	}
}

// liveThrough creates, expands, fences and deletes a claim, and returns the number of writes.
func liveThrough(t *testing.T, policy v1alpha1.VolumeDeletionPolicy, fault func(*kittest.Cluster, bool) error) int {
	t.Helper()
	w := newWorld(t, aClass(storagev1.VolumeBindingImmediate),
		aShadow(func(s *v1alpha1.ShadowVolumeClaim) { s.Finalizers = nil }))
	if fault != nil {
		w.Fault = func(_ kittest.Write, done bool) error { return fault(w.Cluster, done) }
	}
	w.settle()
	if shadow := w.shadow(); shadow.Status.Phase != v1alpha1.ShadowVolumeClaimBound ||
		shadow.Status.VolumeName != volumeName {
		t.Fatalf("phase %q, volume %q, want Bound and %s", shadow.Status.Phase, shadow.Status.VolumeName, volumeName)
	}
	if got := w.pv().Spec.PersistentVolumeReclaimPolicy; got != corev1.PersistentVolumeReclaimRetain {
		t.Fatalf("reclaim policy %s of a bound volume, want Retain", got)
	}

	w.change(func(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Storage = resource.MustParse("2Gi") })
	w.settle()
	if got := w.shadow().Status.Capacity; got == nil || got.String() != "2Gi" {
		t.Fatalf("capacity %v, want 2Gi", got)
	}

	for _, move := range []string{"move-1", ""} {
		w.change(func(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Fence = move })
		w.settle()
		var want *v1alpha1.VolumeFenceStatus
		if move != "" {
			want = &v1alpha1.VolumeFenceStatus{ID: move}
		}
		if diff := cmp.Diff(want, w.shadow().Status.Fence); diff != "" {
			t.Fatalf("fence (-want +got):\n%s", diff)
		}
	}

	w.change(func(s *v1alpha1.ShadowVolumeClaim) { s.Spec.DeletionPolicy = policy })
	w.must(w.Delete(t.Context(), w.shadow()))
	w.settle()
	if w.shadow() != nil || w.claim() != nil {
		t.Fatalf("shadow volume claim and claim are still there: %v", w.Writes)
	}
	if kept, want := w.pv() != nil, policy == v1alpha1.VolumeDeletionRetain; kept != want {
		t.Fatalf("volume kept: %v, want %v", kept, want)
	}
	return len(w.Writes)
}
