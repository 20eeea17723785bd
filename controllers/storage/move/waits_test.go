// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// assertPhase fails the test unless the move is in this phase.
func (w *world) assertPhase(want v1alpha1.MovePhase) {
	w.t.Helper()
	if progress := w.virtualVolume().Status.Move; progress.Phase != want {
		w.t.Fatalf("the move is in phase %s, want %s: %s", progress.Phase, want, progress.Message)
	}
}

// disconnected makes milan the provider of the source, and stops the move in Switching without a connection. It returns
// a function that connects again.
func (w *world) disconnected() func() {
	w.t.Helper()
	w.storedOnMilan()
	w.until(v1alpha1.MoveLocking)
	for range 3 {
		w.reconcile()
	}
	w.answerFence(moveID)
	w.stopAt(v1alpha1.MoveSwitching)
	provider := w.provider
	w.provider = nil
	for range 3 {
		w.reconcile()
	}
	return func() { w.provider = provider }
}

func TestDeadlineThatPassedDuringAnOutageIsNotTheEndOfAMove(t *testing.T) {
	for _, test := range []struct {
		name  string
		phase v1alpha1.MovePhase
		// hold makes the move wait in the phase, and returns a function that ends the wait.
		hold func(*world) func()
	}{
		{"the source is not bound to the claim of the sender", v1alpha1.MoveLocking, func(w *world) func() {
			w.unbound = namesOf(moveID).source
			w.stopAt(v1alpha1.MoveLocking)
			return func() { w.unbound = "" }
		}},
		{"the receiver is not ready", v1alpha1.MoveFinalCopy, func(w *world) func() {
			w.stopAt(v1alpha1.MoveFinalCopy)
			receiver := get(w, namesOf(moveID).receiver, &corev1.Pod{})
			ready, log := receiver.Status.Conditions, w.log
			receiver.Status.Conditions, w.log = nil, "{}"
			w.store(receiver)
			return func() {
				receiver := get(w, receiver.Name, &corev1.Pod{})
				receiver.Status.Conditions, w.log = ready, log
				w.store(receiver)
			}
		}},
		{"the provider is not connected", v1alpha1.MoveSwitching, (*world).disconnected},
	} {
		for _, restart := range []bool{false, true} {
			name := test.name
			if restart {
				name += ", after a restart"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, online())
				w.settle()
				end := test.hold(w)
				w.reconcile()
				w.kube.Clock.Step(time.Hour)
				if restart {
					w.restart()
				}
				w.reconcile()
				w.reconcile()
				w.assertPhase(test.phase)
				end()
				w.until(v1alpha1.MoveSucceeded)
				w.settle()
				w.assertBoundTo(w.targetName())
			})
		}
	}
}

func TestFailedRequestsAreRetriedInSwitching(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.stopAt(v1alpha1.MoveSwitching)
	w.annotationIsRefused(apierrors.NewTooManyRequests("overloaded", 1))
	w.wait(2 * moverTimeout)
	w.assertPhase(v1alpha1.MoveSwitching)
	// Another move that ends deletes the RoleBinding.
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Role}}
	w.must(w.kube.Delete(t.Context(), binding))
	w.refusedPatches = map[string]error{}
	w.until(v1alpha1.MoveSucceeded)
	w.settle()
	w.assertBoundTo(w.targetName())
}

// annotationIsRefused removes the annotation of the move from the user's claim, and fails changes of the claim.
func (w *world) annotationIsRefused(err error) {
	w.t.Helper()
	claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
	delete(claim.Annotations, volume.AnnotationMoving)
	w.must(w.kube.Update(w.t.Context(), claim))
	w.refusedPatches = map[string]error{claimName: err}
}
