// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/fakes"
)

// aged sets the creation time of a volume to an hour ago.
func aged(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	pv.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	return pv
}

// described returns the VirtualVolume of the user's claim, with a move in this phase unless the phase is empty.
func described(phase v1alpha1.MovePhase) *v1alpha1.VirtualVolume {
	description := &v1alpha1.VirtualVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"}}
	if phase != "" {
		description.Status.Move = &v1alpha1.MoveProgress{ID: "m1", Phase: phase}
	}
	return description
}

func TestBoundVolumeGetsItsShadowVolumeClaimBack(t *testing.T) {
	left := milan()
	left[0].(*v1alpha1.ForeignCluster).Spec.Outgoing = v1alpha1.PeeringDisabled
	left[0].(*v1alpha1.ForeignCluster).Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
	another := aged(stored("a", "ssd", "2Gi"))
	another.Spec.ClaimRef.UID = "another"
	for _, test := range []struct {
		name    string
		objects []client.Object
		claim   *corev1.PersistentVolumeClaim
		// kept is true if milan has the ShadowVolumeClaim.
		kept     bool
		restored bool
	}{
		{name: "lost", objects: withMilan(aged(stored("a", "ssd", "2Gi")), described("")), restored: true},
		{name: "kept", objects: withMilan(aged(stored("a", "ssd", "2Gi")), described("")), kept: true},
		{name: "young", objects: withMilan(stored("a", "ssd", "2Gi"), described(""))},
		{name: "being moved", objects: withMilan(aged(stored("a", "ssd", "2Gi")), described(v1alpha1.MoveSwitching))},
		{name: "moved", objects: withMilan(aged(stored("a", "ssd", "2Gi")), described(v1alpha1.MoveSucceeded)), restored: true},
		{name: "released", objects: withMilan(another, described(""))},
		{name: "peering with milan ends", objects: append(left, aged(stored("a", "ssd", "2Gi")), described(""))},
		{name: "no ForeignCluster of milan", objects: []client.Object{aged(stored("a", "ssd", "2Gi")), described("")}},
		{name: "lost claim", objects: withMilan(aged(stored("a", "ssd", "2Gi")), described("")), claim: userClaim(bound("a"),
			func(claim *corev1.PersistentVolumeClaim) {
				claim.Status.Phase = corev1.ClaimLost
			})},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := test.claim
			if claim == nil {
				claim = userClaim(bound("a"))
			}
			w := newWorld(t, append(test.objects, virtual(), claim)...)
			w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept == nil })
			if test.kept {
				w.store()
			}
			w.provision(w.provisioner())
			kept := w.kept()
			if !test.restored {
				if kept != nil && kept.Spec.Existing {
					t.Errorf("milan has %+v", kept.Spec)
				}
				return
			}
			if kept == nil || !kept.Spec.Existing || kept.Spec.StorageClassName != "ssd" ||
				kept.Spec.Storage.String() != "2Gi" ||
				kept.Spec.DeletionPolicy != v1alpha1.VolumeDeletionRetain {
				t.Fatalf("milan has %+v", kept)
			}
			w.expectEvent("Warning ShadowVolumeClaimMissing milan lost ShadowVolumeClaim")
		})
	}
}

func TestShadowVolumeClaimIsRestoredOnceItsProviderAnswers(t *testing.T) {
	w := newWorld(t, withMilan(aged(stored("a", "ssd", "2Gi")), described(""), virtual(), userClaim(bound("a")))...)
	answer := error(apierrors.NewForbidden(schema.GroupResource{Resource: "shadowvolumeclaims"}, shadowName,
		errors.New("exceeds the offered storage")))
	fakes.React(w.milan, "create", "shadowvolumeclaims",
		func(clienttesting.Action) (bool, runtime.Object, error) { return answer != nil, nil, answer })
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept == nil })
	p := w.provisioner()
	for range 2 {
		if result, err := p.Reconcile(t.Context(), dataRequest); err != nil || result.RequeueAfter != missingDelay {
			t.Fatalf("got %v, %v", result, err)
		}
	}
	w.expectEvent("creating it again failed: ")
	answer = apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "create", schema.GroupResource{},
		shadowName, "", 0, true)
	if result, err := p.Reconcile(t.Context(), dataRequest); err != nil || result.RequeueAfter != missingDelay {
		t.Fatalf("got %v, %v", result, err)
	}
	answer = nil
	w.provision(p)
	if kept := w.kept(); kept == nil || !kept.Spec.Existing {
		t.Errorf("milan has %+v", kept)
	}
}

func TestVolumeWithoutShadowVolumeClaimIsNotReady(t *testing.T) {
	w := newWorld(t, withMilan(aged(stored("a", "ssd", "2Gi")), described(""), virtual(), userClaim(bound("a")))...)
	v := &VirtualVolumes{Config: w.Config}
	ready := func() *metav1.Condition {
		t.Helper()
		if _, err := v.Reconcile(t.Context(), dataRequest); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{}).Status.Conditions,
			v1alpha1.ConditionVolumeReady)
	}
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept == nil })
	if condition := ready(); condition.Reason != v1alpha1.ReasonShadowVolumeClaimMissing ||
		condition.Status != metav1.ConditionFalse {
		t.Errorf("without ShadowVolumeClaim: %+v", condition)
	}
	w.store()
	if condition := ready(); condition.Status != metav1.ConditionTrue {
		t.Errorf("with ShadowVolumeClaim: %+v", condition)
	}
	w.answer(func(kept *v1alpha1.ShadowVolumeClaim) {
		kept.Status.Phase = v1alpha1.ShadowVolumeClaimLost
		kept.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionVolumeBound, Status: metav1.ConditionFalse, Reason: "Lost",
			Message: "Its data is kept on pvc-1.",
		}}
	})
	if condition := ready(); condition.Reason != ReasonVolumeLost ||
		!strings.Contains(condition.Message, "milan: Its data is kept on pvc-1.") {
		t.Errorf("lost by milan: %+v", condition)
	}
}
