// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
)

func storedVolume(name string, policy v1alpha1.UnoffloadPolicy) v1alpha1.PlannedVolume {
	return v1alpha1.PlannedVolume{Namespace: "shop", Name: name, ClusterName: "milan", OnUnoffload: policy}
}

func TestThePolicyOfAVolumeDecidesHowItsPeeringEnds(t *testing.T) {
	refused, moved := storedVolume("a", v1alpha1.UnoffloadRefuse), storedVolume("b", v1alpha1.UnoffloadMove)
	retained, deleted := storedVolume("c", v1alpha1.UnoffloadRetain), storedVolume("d", v1alpha1.UnoffloadDelete)
	force := func(fc *v1alpha1.ForeignCluster) { fc.Spec.DisconnectTimeoutSeconds = ptr.To[int32](0) }
	revoke := func(fc *v1alpha1.ForeignCluster) {
		authAspect.set(fc, v1alpha1.PeeringDenied, ReasonIdentityRevoked, "It is revoked.")
	}
	for name, test := range map[string]struct {
		change    func(*v1alpha1.ForeignCluster)
		stored    []v1alpha1.PlannedVolume
		obstacles []string
		holds     bool
		reason    string
		message   []string
	}{
		"without data there is no condition": {},
		"data that is refused holds it": {
			stored: []v1alpha1.PlannedVolume{refused, deleted}, holds: true, reason: ReasonVolumesRemain,
			message: []string{"stores the data of shop/a,", "set spec.volumes.onUnoffload", "spec.disconnectTimeoutSeconds to 0"},
		},
		"so does data that is moved": {
			stored: []v1alpha1.PlannedVolume{moved, retained}, holds: true, reason: ReasonVolumesMoving,
			message: []string{"The data of shop/b is being moved"},
		},
		"with what keeps it from being moved": {
			stored: []v1alpha1.PlannedVolume{moved}, obstacles: []string{"The data of shop/b is not moved: spec.target: no room."}, holds: true,
			reason: ReasonVolumesMoving, message: []string{"spec.target: no room."},
		},
		"retained data is left": {
			stored: []v1alpha1.PlannedVolume{retained}, reason: ReasonVolumesLeftBehind, message: []string{"The data of shop/c stays"},
		},
		"deleted data is named": {
			stored: []v1alpha1.PlannedVolume{retained, deleted}, reason: ReasonVolumesReleasing,
			message: []string{"The data of shop/d is deleted", "The data of shop/c stays"},
		},
		"by force all data is left": {
			change: force, stored: []v1alpha1.PlannedVolume{refused, moved, retained, deleted}, reason: ReasonVolumesLeftBehind,
			message: []string{"shop/a, shop/b, shop/c, shop/d stays"},
		},
		"so it is where the provider revoked the identity": {
			change: revoke, stored: []v1alpha1.PlannedVolume{refused, deleted}, reason: ReasonVolumesLeftBehind,
			message: []string{"shop/a, shop/d stays"},
		},
		"what was held is released": {
			change: func(fc *v1alpha1.ForeignCluster) {
				setCondition(fc, v1alpha1.ConditionVolumesReleased, metav1.ConditionFalse, ReasonVolumesRemain, "")
			},
			reason: ReasonVolumesReleased,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fc := milan()
			if test.change != nil {
				test.change(fc)
			}
			holds, condition := volumesReleased(fc, test.stored, test.obstacles)
			if holds != test.holds || (condition == nil) != (test.reason == "") || condition != nil && condition.Reason != test.reason {
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

// The steps behind renew the identity for as long as data holds the peering.
func TestDataAtTheProviderHoldsThePeering(t *testing.T) {
	e := &ending{
		namespace: namespaceOf("liqo-peer-milan", "milan", v1alpha1.RolePeer),
		stored: []v1alpha1.PlannedVolume{
			storedVolume("a", v1alpha1.UnoffloadRefuse), storedVolume("b", v1alpha1.UnoffloadDelete), storedVolume("c", v1alpha1.UnoffloadRetain),
		},
		requests: []*v1alpha1.ResourceRequest{{Spec: v1alpha1.ResourceRequestSpec{Withdrawn: true}}},
		finished: true,
	}
	fc := milan()
	fc.DeletionTimestamp, fc.Status.OutgoingPeering = &metav1.Time{Time: now}, v1alpha1.PeeringEstablished
	late := now.Add(2 * DisconnectTimeout(fc))
	teardown := e.consumer()
	out, err := teardown.reconcile(t.Context(), &pass{fc: fc, now: late})
	if err != nil || out.stop || out.after != volumesPoll || placement.Ending(fc) {
		t.Fatalf("outcome %+v, %v, phase %s", out, err, fc.Status.OutgoingPeering)
	}
	condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
	if condition == nil || condition.Reason != ReasonVolumesRemain {
		t.Errorf("condition %+v", condition)
	}
	e.stored = e.stored[1:]
	for _, stage := range []struct {
		name   string
		before func()
		done   []string
	}{
		{"it ends when the data is released, with its whole time", func() {}, nil},
		{"data is deleted before the provider is left", func() {}, []string{"release Delete"}},
		{"data that is retained is not waited for", func() { e.stored = e.stored[1:] }, []string{"withdraw", "disconnect", "delete namespace"}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			stage.before()
			e.done = nil
			out, err := teardown.reconcile(t.Context(), &pass{fc: fc, now: late.Add(time.Second)})
			if err != nil || !out.stop || !placement.Ending(fc) {
				t.Fatalf("outcome %+v, %v, phase %s", out, err, fc.Status.OutgoingPeering)
			}
			if diff := cmp.Diff(stage.done, e.done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPeeringThatIsWantedAgainReportsNoVolumes(t *testing.T) {
	fc := milan()
	setCondition(fc, v1alpha1.ConditionVolumesReleased, metav1.ConditionFalse, ReasonVolumesRemain, "")
	if out, err := (&ending{}).consumer().reconcile(t.Context(), &pass{fc: fc, now: now}); err != nil || out.stop {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased); condition != nil {
		t.Errorf("condition %+v", condition)
	}
}

func TestAProviderKeepsVolumesOfAConsumerThatLeft(t *testing.T) {
	fc := rome()
	fc.Spec.Incoming = v1alpha1.PeeringDisabled
	l := &lending{
		namespace: namespaceOf("liqo-tenant-rome", "rome", v1alpha1.RoleTenant),
		requests:  []*v1alpha1.ResourceRequest{{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: v1alpha1.ResourceRequestSpec{Withdrawn: true}}},
		twins:     []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}},
	}
	for _, stage := range []stage{
		{"it begins", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{"it waits for pods", func() {}, nil, v1alpha1.PeeringDisconnecting},
		{
			"it does not wait for volumes without pods", func() { l.volumes = []string{"data-db-0-0a1b2c3d"} },
			[]string{ReasonVolumesRemain, "answer rome", "revoke federation-twin in shop-rome", "revoke federation-tenant in liqo-tenant-rome", "delete namespace"},
			v1alpha1.PeeringDisconnecting,
		},
		{"the remote namespace stays", func() { l.namespace = nil }, nil, v1alpha1.PeeringNone},
	} {
		stage.run(t, l.provider(), fc, &fc.Status.IncomingPeering, &l.done)
	}
	condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionIncomingPeering)
	if condition == nil || !strings.Contains(condition.Message, "shop-rome. The data is found again") {
		t.Errorf("condition %+v", condition)
	}
}
