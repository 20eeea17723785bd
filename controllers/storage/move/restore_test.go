// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// recordsOfAMove returns the virtual volume as it was when each phase of a move began, and
// how many writes the whole move has.
func recordsOfAMove(t *testing.T) (records []*v1alpha1.VirtualVolume, writes int) {
	t.Helper()
	w := newWorld(t, online())
	w.settle()
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking,
		v1alpha1.MoveFinalCopy, v1alpha1.MoveSwitching, v1alpha1.MoveReleasing, v1alpha1.MoveCleaning,
	} {
		w.stopAt(phase)
		record := w.virtualVolume()
		// The store does not hold how many writes came before it.
		record.Generation = int64(w.writes)
		records = append(records, record)
	}
	w.until(v1alpha1.MoveSucceeded)
	return records, w.writes
}

// restore puts the virtual volume back as it was.
func (w *world) restore(record *v1alpha1.VirtualVolume) {
	w.t.Helper()
	vv := w.virtualVolume()
	vv.Spec = *record.Spec.DeepCopy()
	w.must(w.kube.Update(w.t.Context(), vv))
	vv.Status = *record.Status.DeepCopy()
	w.must(w.kube.Status().Update(w.t.Context(), vv))
	w.restart()
}

func TestMoveEndsWithAWholeVolumeFromEachOfItsOlderRecords(t *testing.T) {
	records, writes := recordsOfAMove(t)
	for _, record := range records {
		for at := int(record.Generation) + 1; at <= writes; at += every() {
			t.Run(fmt.Sprintf("%s is restored after write %d", record.Status.Move.Phase, at), func(t *testing.T) {
				w := newWorld(t, online())
				w.settle()
				for w.killAt, w.done = at, true; w.writes < at; {
					w.reconcile()
				}
				w.restore(record)
				for range 80 {
					if w.reconcile(); ended(w.virtualVolume().Status.Move.Phase) {
						break
					}
				}
				if progress := w.virtualVolume().Status.Move; !ended(progress.Phase) {
					t.Fatalf("progress %+v", progress)
				}
				w.settle()
				w.assertBoundTo(get(w, claimName, &corev1.PersistentVolumeClaim{}).Spec.VolumeName)
			})
		}
	}
}

func TestTargetThatIsDeletedWhileSwitchingLeavesTheSourceRetained(t *testing.T) {
	w := newWorld(t, online())
	w.noStatefulSet = true
	w.must(w.kube.Create(t.Context(), func() *corev1.Pod { pod := podOf(appName); w.number(pod); return pod }()))
	w.settle()
	w.stopAt(v1alpha1.MoveSwitching)
	for range 50 {
		w.reconcile()
		if err := w.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: claimName}, &corev1.PersistentVolumeClaim{}); err != nil {
			break
		}
	}
	w.must(w.kube.Delete(t.Context(), get(w, w.targetName(), &corev1.PersistentVolume{})))
	w.until(v1alpha1.MoveFailed)
	w.settle()
	source := get(w, sourceName, &corev1.PersistentVolume{})
	if source.Status.Phase != corev1.VolumeReleased || source.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the source is %s with policy %s", source.Status.Phase, source.Spec.PersistentVolumeReclaimPolicy)
	}
}
