// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestSourceIsLockedAlthoughItsClaimChanged(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world)
	}{
		{"volumeAttributesClassName", func(w *world) {
			claim, source := get(w, claimName, &corev1.PersistentVolumeClaim{}), get(w, sourceName, &corev1.PersistentVolume{})
			claim.Spec.VolumeAttributesClassName, source.Spec.VolumeAttributesClassName = ptr.To("gold"), ptr.To("gold")
			w.must(w.kube.Update(w.t.Context(), claim))
			w.must(w.kube.Update(w.t.Context(), source))
		}},
		{"a larger request than the capacity", func(w *world) {
			w.stopAt(v1alpha1.MoveCopying)
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.must(w.kube.Update(w.t.Context(), claim))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			test.change(w)
			w.until(v1alpha1.MoveSucceeded)
			w.settle()
			w.assertBoundTo(w.targetName())
			claim, target := get(w, claimName, &corev1.PersistentVolumeClaim{}),
				get(w, w.targetName(), &corev1.PersistentVolume{})
			want := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
			if got := ptr.Deref(target.Spec.VolumeAttributesClassName, ""); got != want {
				t.Errorf("the target has the VolumeAttributesClass %q, want %q", got, want)
			}
		})
	}
}

func TestSourceThatIsBeingDeletedIsNotLocked(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveCopying)
	source := get(w, sourceName, &corev1.PersistentVolume{})
	source.Finalizers = []string{"kubernetes.io/pv-protection"}
	w.must(w.kube.Update(t.Context(), source))
	w.must(w.kube.Delete(t.Context(), source))
	progress := w.until(v1alpha1.MoveFailed)
	w.settle()
	w.assertBoundTo(sourceName)
	if !strings.Contains(progress.Message, "is being deleted") {
		t.Errorf("message %q", progress.Message)
	}
}

func TestSourceThatKubernetesDoesNotBindToTheSenderRollsTheMoveBack(t *testing.T) {
	w := newWorld(t, online())
	w.unbound = namesOf(moveID).source
	w.settle()
	w.stopAt(v1alpha1.MoveLocking)
	w.reconcile()
	if phase := w.virtualVolume().Status.Move.Phase; phase != v1alpha1.MoveLocking {
		t.Fatalf("the move is in phase %s", phase)
	}
	w.wait(11 * time.Second)
	progress := w.until(v1alpha1.MoveFailed)
	w.settle()
	w.assertBoundTo(sourceName)
	if !strings.Contains(progress.Message, w.unbound) {
		t.Errorf("message %q", progress.Message)
	}
}
