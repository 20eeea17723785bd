// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

func TestMoveToAProviderIsRolledBackWhenOffloadingEnds(t *testing.T) {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: v1alpha1.NamespaceOffloadingName}}
	provider := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	for _, test := range []struct {
		name    string
		deleted client.Object
		want    string
	}{
		{"the namespace is unoffloaded", offloading, "being unoffloaded"},
		{"the peering is deleted", provider, "ForeignCluster milan does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := online()
			spec.Target = v1alpha1.MoveTarget{ClusterName: "milan"}
			w := newWorld(t, spec)
			w.must(w.kube.Create(t.Context(), offloading.DeepCopy()))
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			w.must(w.kube.Delete(t.Context(), test.deleted.DeepCopyObject().(client.Object)))
			progress := w.until(v1alpha1.MoveFailed)
			w.settle()
			w.assertBoundTo(sourceName)
			if !strings.Contains(progress.Message, test.want) {
				t.Errorf("message %q", progress.Message)
			}
		})
	}
}

func TestMoveIsRolledBackWhenThePeeringWithAnEndIsEnding(t *testing.T) {
	for _, test := range []struct {
		name  string
		move  func(*world)
		phase v1alpha1.PeeringPhase
		want  v1alpha1.MovePhase
	}{
		{"the source's", (*world).storedOnMilan, v1alpha1.PeeringDisconnecting, v1alpha1.MoveFailed},
		{"the target's", (*world).movesToMilan, v1alpha1.PeeringDisconnecting, v1alpha1.MoveFailed},
		{"the peering ended by force", (*world).storedOnMilan, v1alpha1.PeeringNone, v1alpha1.MoveFailed},
		{"the peering is kept for the data", (*world).storedOnMilan, v1alpha1.PeeringEstablished, v1alpha1.MoveCopying},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			test.move(w)
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			// The virtual nodes are deleted, so the sender is never ready.
			w.must(w.kube.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
				Name: namesOf(moveID).sender, Labels: map[string]string{volume.LabelMove: moveID, LabelRole: roleSender}},
				Spec:   corev1.PodSpec{Volumes: podOf("").Spec.Volumes, NodeName: "liqo-milan"},
				Status: corev1.PodStatus{Phase: corev1.PodPending}}))
			w.unpeer(test.phase)
			for range 30 {
				w.reconcile()
			}
			progress := w.virtualVolume().Status.Move
			if progress.Phase != test.want {
				t.Fatalf("progress %+v", progress)
			}
			if test.want == v1alpha1.MoveFailed {
				w.assertBoundTo(sourceName)
				if !strings.Contains(progress.Message, "peering with milan is ending") {
					t.Errorf("message %q", progress.Message)
				}
			}
		})
	}
}

// movesToMilan makes milan the target of the move.
func (w *world) movesToMilan() {
	w.t.Helper()
	w.must(w.kube.Create(w.t.Context(), &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: v1alpha1.NamespaceOffloadingName}}))
	vv := w.virtualVolume()
	vv.Spec.Move.Target = v1alpha1.MoveTarget{ClusterName: "milan"}
	w.must(w.kube.Update(w.t.Context(), vv))
	w.remoteTarget = true
}

// unpeer disables the outgoing peering with milan, which has this phase then.
func (w *world) unpeer(phase v1alpha1.PeeringPhase) {
	w.t.Helper()
	milan := &v1alpha1.ForeignCluster{}
	w.must(w.kube.Get(w.t.Context(), client.ObjectKey{Name: "milan"}, milan))
	milan.Spec.Outgoing, milan.Status.OutgoingPeering = v1alpha1.PeeringDisabled, phase
	w.store(milan)
}

func TestRollingBackDoesNotWaitForAPeeringThatEnded(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the ForeignCluster is deleted": func(w *world) {
			w.must(w.kube.Delete(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}))
		},
		"the outgoing peering is disabled": func(w *world) { w.unpeer(v1alpha1.PeeringNone) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, online())
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			vv := w.virtualVolume()
			vv.Status.Move.Source.ClusterName, vv.Status.Move.Source.ClusterID = "milan", "9f1c"
			w.must(w.kube.Status().Update(t.Context(), vv))
			end(w)
			w.cancel()
			w.until(v1alpha1.MoveCancelled)
			w.settle()
			w.assertBoundTo(sourceName)
		})
	}
}
