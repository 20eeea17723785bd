// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// storedOnMilan makes milan the provider that stores the source.
func (w *world) storedOnMilan() {
	w.t.Helper()
	source := get(w, sourceName, &corev1.PersistentVolume{})
	source.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{ClusterID: "9f1c", Namespace: "shop-rome",
		Claim: "data-db-0-01234567"})
	w.must(w.kube.Update(w.t.Context(), source))
	w.offer("shop-rome", "data-db-0-01234567")
}

// assertUsable fails the test unless the claim is bound to the source and its pod runs.
func (w *world) assertUsable() {
	w.t.Helper()
	claim, app := get(w, claimName, &corev1.PersistentVolumeClaim{}), get(w, appName, &corev1.Pod{})
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != sourceName ||
		app.Status.Phase != corev1.PodRunning {
		w.t.Errorf("the claim is %s with volume %s, and the pod %s", claim.Status.Phase, claim.Spec.VolumeName,
			app.Status.Phase)
	}
}

func TestSwitchingIsRolledBackIfTheProviderOfTheSourceDoesNotReportItsUsers(t *testing.T) {
	for _, test := range []struct {
		name, want string
		lose       func(*world)
	}{
		{"there is no connection", "request to milan failed", func(w *world) { w.provider = nil }},
		{"the ShadowVolumeClaim is lost", "no ShadowVolumeClaim", func(w *world) { w.provider = newProvider() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.storedOnMilan()
			w.until(v1alpha1.MoveLocking)
			w.reconcile()
			w.reconcile()
			w.reconcile()
			w.answerFence(moveID)
			w.stopAt(v1alpha1.MoveSwitching)
			provider := w.provider
			test.lose(w)
			for range 5 {
				w.reconcile()
			}
			if progress := w.virtualVolume().Status.Move; progress.Phase != v1alpha1.MoveSwitching ||
				!strings.Contains(progress.Message, test.want) {
				t.Fatalf("progress %+v", progress)
			}
			w.wait(moverTimeout)
			for range 10 {
				w.reconcile()
			}
			w.assertUsable()
			if w.provider == nil {
				if message := w.moved(); !strings.Contains(message, "is retried") {
					t.Errorf("condition Moved: %s", message)
				}
				w.provider = provider
			}
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, test.want) || w.moved() != progress.Message {
				t.Errorf("message %q, condition %q", progress.Message, w.moved())
			}
		})
	}
}

func TestUnscheduledPodsWithoutAGateDoNotHoldALockedMove(t *testing.T) {
	for _, phase := range []v1alpha1.MovePhase{v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(phase)
			for get(w, claimName, &corev1.PersistentVolumeClaim{}).Status.Phase != corev1.ClaimLost {
				w.reconcile()
			}
			// The namespace is unoffloaded, so that admission adds no gates any more.
			w.ungated = true
			w.must(w.kube.Delete(t.Context(), get(w, appName, &corev1.Pod{})))
			w.settle()
			w.until(v1alpha1.MoveSucceeded)
			w.settle()
			w.assertBoundTo(w.targetName())
		})
	}
}

func TestRemovedAnnotationOfAMoveIsSetAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		phase v1alpha1.MovePhase
		// recorded means that the target volume records the claim to create.
		recorded bool
	}{
		{"while the source is being locked", v1alpha1.MoveLocking, false},
		{"during the last pass", v1alpha1.MoveFinalCopy, false},
		{"before the claim is deleted", v1alpha1.MoveSwitching, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(test.phase)
			for test.recorded && markOrNil(get(w, w.targetName(), &corev1.PersistentVolume{})).Manifest == nil {
				w.reconcile()
			}
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			delete(claim.Annotations, volume.AnnotationMoving)
			w.must(w.kube.Update(t.Context(), claim))
			w.until(v1alpha1.MoveSucceeded)
			w.settle()
			w.assertBoundTo(w.targetName())
		})
	}
}

func TestTargetIsNotReservedForTheClaimOnceTheSourceIsRestored(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	reconnect := w.disconnected()
	reconnect()
	for markOrNil(get(w, w.targetName(), &corev1.PersistentVolume{})).Manifest == nil {
		w.reconcile()
	}
	provider := w.provider
	w.annotationIsRefused(exceeded)
	for w.virtualVolume().Status.Move.Phase != v1alpha1.MoveRollingBack {
		w.killWhen = v1alpha1.MoveRollingBack
		w.reconcile()
		w.kube.Clock.Step(10 * time.Second)
	}
	w.killWhen = ""
	// The rollback waits for the provider, while pods write to the source.
	w.provider, w.refusedPatches = nil, nil
	for range 10 {
		w.reconcile()
	}
	w.assertUsable()
	target := get(w, w.targetName(), &corev1.PersistentVolume{})
	if reference := target.Spec.ClaimRef; reference.Name != namesOf(moveID).target || reference.UID == "" {
		t.Errorf("the target is reserved for claim %s with UID %q", reference.Name, reference.UID)
	}
	old := get(w, claimName, &corev1.PersistentVolumeClaim{})
	old.Finalizers = nil
	w.must(w.kube.Update(t.Context(), old))
	w.must(w.kube.Delete(t.Context(), old))
	w.must(w.kube.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName, UID: "claim-1"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: old.Spec.StorageClassName,
			AccessModes: old.Spec.AccessModes, Resources: old.Spec.Resources},
	}))
	w.provider = provider
	w.until(v1alpha1.MoveFailed)
	if claim := get(w, claimName, &corev1.PersistentVolumeClaim{}); claim.Spec.VolumeName != "" {
		t.Errorf("the new claim is bound to volume %s", claim.Spec.VolumeName)
	}
}
