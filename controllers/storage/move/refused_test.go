// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// exceeded is the error of an API server whose ResourceQuota does not suffice.
var exceeded = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("exceeded quota: q"))

func TestMoveCreatesEachObjectOnce(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.until(v1alpha1.MoveSucceeded)
	if len(w.repeated) > 0 {
		t.Errorf("these exist and count against a quota again: %v", w.repeated)
	}
}

func TestRefusedWritesRollTheMoveBackInTime(t *testing.T) {
	names := namesOf(moveID)
	for _, test := range []struct {
		name   string
		phase  v1alpha1.MovePhase
		refuse func(*world)
		want   string
	}{
		{"the claim of the receiver", v1alpha1.MovePreparing, func(w *world) {
			w.refused = map[string]error{names.target: exceeded}
		}, "exceeded quota: q"},
		{"eviction of the pod", v1alpha1.MoveQuiescing, func(w *world) {
			w.unevicted = apierrors.NewInternalError(errors.New("more than one PodDisruptionBudget"))
		}, "more than one PodDisruptionBudget"},
		{"the claim that locks the source", v1alpha1.MoveLocking, func(w *world) {
			w.refused = map[string]error{names.source: exceeded}
		}, "exceeded quota: q"},
		{"another sender", v1alpha1.MoveFinalCopy, func(w *world) {
			w.refused = map[string]error{names.sender: exceeded}
			w.must(w.kube.Delete(t.Context(), get(w, names.sender, &corev1.Pod{})))
		}, "exceeded quota: q"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(test.phase)
			test.refuse(w)
			w.reconcile()
			if progress := w.virtualVolume().Status.Move; progress.Phase != test.phase {
				t.Fatalf("progress %+v", progress)
			}
			w.wait(moverTimeout)
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, test.want) || strings.Contains(progress.Message, "*v1.") {
				t.Errorf("message %q", progress.Message)
			}
		})
	}
}
