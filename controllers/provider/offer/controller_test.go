// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

func TestNodesChangeOffersOnlyByWhatTheyOffer(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a heartbeat", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, false},
		{"a cordon", cordoned, true},
		{"a label", func(n *corev1.Node) { n.Labels["pool"] = "shared" }, true},
		{"another size", func(n *corev1.Node) { n.Status.Allocatable = list("cpu", "8") }, true},
	} {
		current := worker(1, "4")
		test.change(current)
		if got := shareChanged(worker(1, "4"), current); got != test.want {
			t.Errorf("%s: changed %t, want %t", test.name, got, test.want)
		}
	}
}

func TestReleasesConcernOnlyConsumersBeyondTheirGrant(t *testing.T) {
	pod := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{ForeignCluster: "rome"}}
	claim := &v1alpha1.ShadowVolumeClaim{Status: v1alpha1.ShadowVolumeClaimStatus{ForeignCluster: "rome"}}
	w := newWorld(t, DefaultPolicy())
	for _, exceeds := range []bool{false, true} {
		status := metav1.ConditionTrue
		var want []reconcile.Request
		if exceeds {
			status, want = metav1.ConditionFalse, []reconcile.Request{kit.Request("", "rome")}
		}
		w.changeRequest(func(request *v1alpha1.ResourceRequest) {
			request.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWithinQuota, Status: status}}
		})
		for _, got := range [][]reconcile.Request{w.consumerOfPod(t.Context(), pod), w.consumerOfClaim(t.Context(), claim),
			w.consumersOfVolumes(t.Context(), retainedVolume())} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("usage exceeds the grant is %t: requests (-want +got):\n%s", exceeds, diff)
			}
		}
	}
	if got := w.consumerOfPod(t.Context(), &v1alpha1.ShadowPod{}); got != nil {
		t.Errorf("a pod without a consumer: %v", got)
	}
	finished := pod.DeepCopy()
	finished.Status.Phase = corev1.PodSucceeded
	if podFinished.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}) ||
		!podFinished.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: finished}) ||
		podFinished.Create(event.CreateEvent{Object: finished}) ||
		!podFinished.Delete(event.DeleteEvent{Object: pod}) {
		t.Error("not selected are deletions and updates of finished pods")
	}
	takenOver, ordinary := retainedVolume(), retainedVolume()
	delete(takenOver.Labels, v1alpha1.LabelForeignCluster)
	ordinary.Labels = nil
	for _, test := range []struct {
		name         string
		old, current *corev1.PersistentVolume
		want         bool
	}{
		{"taken over", retainedVolume(), takenOver, true},
		{"bound again", retainedVolume(), ordinary, true},
		{"retained", ordinary, retainedVolume(), false},
		{"unchanged", retainedVolume(), retainedVolume(), false},
	} {
		if got := volumeReleased.Update(event.UpdateEvent{ObjectOld: test.old, ObjectNew: test.current}); got != test.want {
			t.Errorf("volume %s: selected %t, want %t", test.name, got, test.want)
		}
	}
}
