// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/controllers/link/foreigncluster"
)

func storedVolume(name string, policy v1alpha1.UnoffloadPolicy) v1alpha1.PlannedVolume {
	return v1alpha1.PlannedVolume{Namespace: "shop", Name: name, ClusterName: "milan", OnUnoffload: policy}
}

// volumesRemain returns the condition VolumesReleased of a peering whose teardown volumes delay.
func volumesRemain() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionVolumesReleased, Status: metav1.ConditionFalse, Reason: foreigncluster.ReasonVolumesRemain,
	}
}

func TestPolicyOfAVolumeDecidesHowItsPeeringEnds(t *testing.T) {
	refused, moved := storedVolume("a", v1alpha1.UnoffloadRefuse), storedVolume("b", v1alpha1.UnoffloadMove)
	retained, deleted := storedVolume("c", v1alpha1.UnoffloadRetain), storedVolume("d", v1alpha1.UnoffloadDelete)
	force := func(fc *v1alpha1.ForeignCluster) { fc.Spec.DisconnectTimeoutSeconds = ptr.To[int32](0) }
	revoke := func(fc *v1alpha1.ForeignCluster) {
		foreigncluster.Authentication.Set(fc, v1alpha1.PeeringDenied, foreigncluster.ReasonIdentityRevoked, "It is revoked.")
	}
	for name, test := range map[string]struct {
		change    func(*v1alpha1.ForeignCluster)
		stored    []v1alpha1.PlannedVolume
		obstacles []string
		holds     bool
		reason    string
		message   []string
	}{
		"no data": {},
		"data of policy Refuse holds the peering": {
			stored: []v1alpha1.PlannedVolume{refused, deleted}, holds: true, reason: foreigncluster.ReasonVolumesRemain,
			message: []string{
				"stores the data of shop/a,", "set spec.volumes.onUnoffload", "spec.disconnectTimeoutSeconds to 0",
			},
		},
		"data that is moved holds the peering": {
			stored: []v1alpha1.PlannedVolume{moved, retained}, holds: true, reason: foreigncluster.ReasonVolumesMoving,
			message: []string{"The data of shop/b is being moved"},
		},
		"obstacles to a move are reported": {
			stored: []v1alpha1.PlannedVolume{moved}, holds: true,
			obstacles: []string{"The data of shop/b is not moved: spec.target: no room."},
			reason:    foreigncluster.ReasonVolumesMoving, message: []string{"spec.target: no room."},
		},
		"retained data stays on the provider": {
			stored: []v1alpha1.PlannedVolume{retained}, reason: foreigncluster.ReasonVolumesLeftBehind,
			message: []string{"The data of shop/c stays"},
		},
		"deleted data is named": {
			stored: []v1alpha1.PlannedVolume{retained, deleted}, reason: foreigncluster.ReasonVolumesReleasing,
			message: []string{"The data of shop/d is deleted", "The data of shop/c stays"},
		},
		"a forced end leaves all data": {
			change: force, stored: []v1alpha1.PlannedVolume{refused, moved, retained, deleted},
			reason: foreigncluster.ReasonVolumesLeftBehind, message: []string{"shop/a, shop/b, shop/c, shop/d stays"},
		},
		"a revoked identity leaves all data": {
			change: revoke, stored: []v1alpha1.PlannedVolume{refused, deleted}, reason: foreigncluster.ReasonVolumesLeftBehind,
			message: []string{"shop/a, shop/d stays"},
		},
		"released data no longer holds the peering": {
			change: func(fc *v1alpha1.ForeignCluster) {
				fc.Status.Conditions = []metav1.Condition{volumesRemain()}
			},
			reason: foreigncluster.ReasonVolumesReleased,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fc := milan()
			if test.change != nil {
				test.change(fc)
			}
			holds, condition := volumesReleased(fc, test.stored, test.obstacles)
			if holds != test.holds || (condition == nil) != (test.reason == "") ||
				condition != nil && condition.Reason != test.reason {
				t.Fatalf("holds %t, condition %+v", holds, condition)
			}
			for _, want := range test.message {
				if !strings.Contains(condition.Message, want) {
					t.Errorf("the message lacks %q: %s", want, condition.Message)
				}
			}
		})
	}
}

// The teardown step does not stop the following steps, which renew the identity, while data delays the
// teardown.
func TestDataAtTheProviderHoldsThePeering(t *testing.T) {
	c := newConsumer(t, peerNamespace(), resourceRequest(true), identitySecret(t))
	c.finished()
	c.stored = []v1alpha1.PlannedVolume{
		storedVolume("a", v1alpha1.UnoffloadRefuse), storedVolume("b", v1alpha1.UnoffloadDelete),
		storedVolume("c", v1alpha1.UnoffloadRetain),
	}
	fc := milan()
	fc.DeletionTimestamp, fc.Status.OutgoingPeering = &metav1.Time{Time: now}, v1alpha1.PeeringEstablished
	late := now.Add(2 * foreigncluster.DisconnectTimeout(fc))
	teardown := &teardownStep{Config: c.Config}
	out, err := teardown.Reconcile(t.Context(), passAt(fc, late))
	if err != nil || out.Stop || out.After != volumesPoll || placement.Ending(fc) {
		t.Fatalf("outcome %+v, %v, phase %s", out, err, fc.Status.OutgoingPeering)
	}
	condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
	if condition == nil || condition.Reason != foreigncluster.ReasonVolumesRemain {
		t.Errorf("condition %+v", condition)
	}
	c.stored = c.stored[1:]
	for _, stage := range []struct {
		name   string
		before func()
		done   []string
	}{
		{"it ends when the data is released, with its whole timeout", func() {}, nil},
		{"data is deleted before the provider is left", func() {}, []string{"release Delete"}},
		{
			"data that is retained is not awaited", func() { c.stored = c.stored[1:] },
			[]string{"withdraw", "disconnect", "delete Namespace liqo-peer-milan"},
		},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.before()
			c.done = nil
			out, err := teardown.Reconcile(t.Context(), passAt(fc, late.Add(time.Second)))
			if err != nil || !out.Stop || !placement.Ending(fc) {
				t.Fatalf("outcome %+v, %v, phase %s", out, err, fc.Status.OutgoingPeering)
			}
			if diff := cmp.Diff(stage.done, c.done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeeringThatIsEnabledAgainReportsNoVolumes(t *testing.T) {
	fc := milan()
	fc.Status.Conditions = []metav1.Condition{volumesRemain()}
	teardown := &teardownStep{Config: newConsumer(t).Config}
	if out, err := teardown.Reconcile(t.Context(), passAt(fc, now)); err != nil || out.Stop {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased); condition != nil {
		t.Errorf("condition %+v", condition)
	}
}
