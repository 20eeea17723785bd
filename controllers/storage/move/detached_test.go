// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// changeVolume updates a volume as another client, unless change is nil.
func (w *world) changeVolume(name string, change func(*corev1.PersistentVolume)) {
	w.t.Helper()
	if change == nil {
		return
	}
	pv := get(w, name, &corev1.PersistentVolume{})
	change(pv)
	w.must(w.kube.Update(w.t.Context(), pv))
}

// provisionedWith returns a function that gives a volume a reclaim policy of its own, as volumes on providers have.
func provisionedWith(policy corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		delete(pv.Annotations, volume.AnnotationReclaimPolicy)
		pv.Spec.PersistentVolumeReclaimPolicy = policy
	}
}

// detach does what unoffloading does to a volume with the policy Retain.
func detach(pv *corev1.PersistentVolume) {
	pv.Spec.ClaimRef.UID = pv.UID
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volume.AnnotationReclaimPolicy,
		string(corev1.PersistentVolumeReclaimRetain))
}

// wanted returns the reclaim policy that applies when a volume is released.
func wanted(pv *corev1.PersistentVolume) string {
	if policy := pv.Annotations[volume.AnnotationReclaimPolicy]; policy != "" {
		return policy
	}
	return string(pv.Spec.PersistentVolumeReclaimPolicy)
}

func TestRollbackKeepsAReclaimPolicyThatAnotherClientSet(t *testing.T) {
	set := func(policy string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) {
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volume.AnnotationReclaimPolicy, policy)
		}
	}
	for _, test := range []struct {
		name   string
		policy corev1.PersistentVolumeReclaimPolicy
		// before and during are changes before and during the move.
		before, during func(*corev1.PersistentVolume)
		want           string
	}{
		{"no change", corev1.PersistentVolumeReclaimDelete, nil, nil, "Delete"},
		{"Retain before the move", corev1.PersistentVolumeReclaimDelete, set("Retain"), nil, "Retain"},
		{"Retain during the move", corev1.PersistentVolumeReclaimDelete, nil, set("Retain"), "Retain"},
		{"Delete during the move", corev1.PersistentVolumeReclaimRetain, nil, set("Delete"), "Delete"},
		{"detached during the move", corev1.PersistentVolumeReclaimDelete, nil, detach, "Retain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			w.changeVolume(sourceName, provisionedWith(test.policy))
			w.changeVolume(sourceName, test.before)
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			w.changeVolume(sourceName, test.during)
			w.cancel()
			w.until(v1alpha1.MoveCancelled)
			source := get(w, sourceName, &corev1.PersistentVolume{})
			if wanted(source) != test.want || source.Annotations[annotationMark] != "" {
				t.Errorf("policy %s, annotations %v", wanted(source), source.Annotations)
			}
		})
	}
}

func TestMoveOfADetachedVolumeFailsWithoutChangingTheVolume(t *testing.T) {
	w := newWorld(t, online())
	w.changeVolume(sourceName, provisionedWith(corev1.PersistentVolumeReclaimDelete))
	w.changeVolume(sourceName, detach)
	before := get(w, sourceName, &corev1.PersistentVolume{})
	w.until(v1alpha1.MoveFailed)
	source := get(w, sourceName, &corev1.PersistentVolume{})
	if wanted(source) != "Retain" ||
		source.Spec.PersistentVolumeReclaimPolicy != before.Spec.PersistentVolumeReclaimPolicy {
		t.Errorf("policy %s, annotations %v", source.Spec.PersistentVolumeReclaimPolicy, source.Annotations)
	}
}

func TestTargetThatIsDetachedBeforeItIsMarkedRollsTheMoveBack(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	for len(w.volumes()) < 2 {
		w.reconcile()
	}
	w.changeVolume(w.targetName(), func(pv *corev1.PersistentVolume) {
		delete(pv.Annotations, annotationMark)
		detach(pv)
	})
	w.until(v1alpha1.MoveFailed)
	if target := get(w, w.targetName(), &corev1.PersistentVolume{}); wanted(target) != "Retain" {
		t.Errorf("policy %s, annotations %v", wanted(target), target.Annotations)
	}
	if claim := get(w, claimName, &corev1.PersistentVolumeClaim{}); claim.Spec.VolumeName != sourceName {
		t.Errorf("the claim has volume %s", claim.Spec.VolumeName)
	}
}
