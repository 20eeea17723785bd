// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// moved returns the message of the condition Moved.
func (w *world) moved() string {
	w.t.Helper()
	condition := apimeta.FindStatusCondition(w.virtualVolume().Status.Conditions, v1alpha1.ConditionVolumeMoved)
	if condition == nil {
		w.t.Fatal("the virtual volume has no condition Moved")
	}
	return condition.Message
}

func TestRollbackThatWaitsNamesTheReason(t *testing.T) {
	names := namesOf(moveID)
	foreign := func(claim string) *corev1.Pod {
		pod := podOf("debug")
		pod.Spec.NodeName = "worker"
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim
		return pod
	}
	held := func(name string) func(*world) func() {
		return func(w *world) func() {
			pod := get(w, name, &corev1.Pod{})
			pod.Finalizers = []string{"example.com/node"}
			w.must(w.kube.Update(w.t.Context(), pod))
			return func() {
				pod := get(w, name, &corev1.Pod{})
				pod.Finalizers = nil
				w.must(w.kube.Update(w.t.Context(), pod))
			}
		}
	}
	mounted := func(claim string) func(*world) func() {
		return func(w *world) func() {
			pod := foreign(claim)
			w.must(w.kube.Create(w.t.Context(), pod))
			return func() { w.must(w.kube.Delete(w.t.Context(), pod)) }
		}
	}
	for _, test := range []struct {
		name, want string
		hold       func(*world) func()
	}{
		{"the sender", "pod " + names.sender, held(names.sender)},
		{"the receiver", "pod " + names.receiver, held(names.receiver)},
		{"a pod with the claim of the sender", "delete pod debug", mounted(names.source)},
		{"a pod with the claim of the receiver", "delete pod debug", mounted(names.target)},
		{"a request that fails", "Retrying: ", func(w *world) func() {
			source := get(w, sourceName, &corev1.PersistentVolume{})
			w.refusedPatches = map[string]error{source.Name: exceeded}
			return func() { w.refusedPatches = nil }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(v1alpha1.MoveFinalCopy)
			release := test.hold(w)
			w.cancel()
			for range 10 {
				w.reconcile()
			}
			if message := w.moved(); w.virtualVolume().Status.Move.Phase != v1alpha1.MoveRollingBack ||
				!strings.Contains(message, test.want) || !strings.Contains(message, "The move was cancelled.") {
				t.Errorf("condition Moved: %s", message)
			}
			release()
			progress := w.until(v1alpha1.MoveCancelled)
			w.settle()
			w.assertBoundTo(sourceName)
			if progress.Message != "The move was cancelled." || w.moved() != progress.Message {
				t.Errorf("message %q, condition %q", progress.Message, w.moved())
			}
		})
	}
}
