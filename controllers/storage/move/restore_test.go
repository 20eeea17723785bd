// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// recorded is a virtual volume after a number of writes of its move.
type recorded struct {
	volume *v1alpha1.VirtualVolume
	writes int
}

// recordsOfAMove returns the virtual volume at the start of each phase of a move, and the number of writes of the whole
// move.
func recordsOfAMove(t *testing.T) (records []recorded, writes int) {
	t.Helper()
	w := newWorld(t, online())
	w.settle()
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking,
		v1alpha1.MoveFinalCopy, v1alpha1.MoveSwitching, v1alpha1.MoveReleasing, v1alpha1.MoveCleaning,
	} {
		w.stopAt(phase)
		records = append(records, recorded{w.virtualVolume(), len(w.kube.Writes)})
	}
	w.until(v1alpha1.MoveSucceeded)
	return records, len(w.kube.Writes)
}

// restore writes an earlier state of the virtual volume, as the restore of a backup does.
func (w *world) restore(older *v1alpha1.VirtualVolume) {
	w.t.Helper()
	vv := w.virtualVolume()
	vv.Spec = *older.Spec.DeepCopy()
	w.must(w.kube.Update(w.t.Context(), vv))
	vv.Status = *older.Status.DeepCopy()
	w.must(w.kube.Status().Update(w.t.Context(), vv))
	w.restart()
}

func TestMoveEndsWithAWholeVolumeFromEachOfItsOlderRecords(t *testing.T) {
	records, writes := recordsOfAMove(t)
	for _, older := range records {
		for at := older.writes + 1; at <= writes; at += every() {
			t.Run(fmt.Sprintf("%s is restored after write %d", older.volume.Status.Move.Phase, at), func(t *testing.T) {
				w := newWorld(t, online())
				w.settle()
				for w.kube.Kill(at-1, true); len(w.kube.Writes) < at; {
					w.reconcile()
				}
				w.restore(older.volume)
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

func TestRetainedSourceOfAMoveThatEndedIsNotBoundAgain(t *testing.T) {
	w := newWorld(t, online())
	w.keepsSource()
	w.settle()
	w.stopAt(v1alpha1.MovePreparing)
	older := w.virtualVolume()
	older.Status.Move.Source = v1alpha1.VolumeLocation{VolumeName: sourceName, StorageClassName: "local"}
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	before := get(w, sourceName, &corev1.PersistentVolume{})
	w.restore(older)
	w.until(v1alpha1.MoveFailed)
	w.settle()
	w.assertBoundTo(w.targetName())
	if diff := cmp.Diff(before, get(w, sourceName, &corev1.PersistentVolume{})); diff != "" {
		t.Errorf("the retained source (-before +after):\n%s", diff)
	}
}

func TestTargetThatIsDeletedWhileSwitchingLeavesTheSourceRetained(t *testing.T) {
	w := newWorld(t, online())
	w.runsWithoutStatefulSet()
	w.settle()
	w.stopAt(v1alpha1.MoveSwitching)
	for range 50 {
		w.reconcile()
		if err := w.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: claimName},
			&corev1.PersistentVolumeClaim{}); err != nil {
			break
		}
	}
	w.must(w.kube.Delete(t.Context(), get(w, w.targetName(), &corev1.PersistentVolume{})))
	w.until(v1alpha1.MoveFailed)
	w.settle()
	source := get(w, sourceName, &corev1.PersistentVolume{})
	if source.Status.Phase != corev1.VolumeReleased ||
		source.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the source is %s with policy %s", source.Status.Phase, source.Spec.PersistentVolumeReclaimPolicy)
	}
}

func TestMoveWhoseVirtualVolumeIsLostWithoutAClaimContinuesInTheNextOne(t *testing.T) {
	w := newWorld(t, online())
	w.runsWithoutStatefulSet()
	w.settle()
	w.refused = map[string]error{
		claimName: apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claimName, errors.New("exceeded quota")),
	}
	claim := client.ObjectKey{Namespace: namespace, Name: claimName}
	w.until(v1alpha1.MoveSwitching)
	for range 20 {
		w.reconcile()
	}
	if err := w.kube.Get(t.Context(), claim, &corev1.PersistentVolumeClaim{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the claim exists: %v", err)
	}
	w.must(w.kube.Delete(t.Context(), w.virtualVolume()))
	w.reconcile()
	w.refused = nil
	w.must(w.kube.Create(t.Context(), &v1alpha1.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName, UID: "restored"},
	}))
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
}
