// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

func fenced(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Fence = "move-1" }

func boundWorld(t *testing.T, more ...client.Object) *world {
	t.Helper()
	return newWorld(t, append(more, aShadow(wasBound, fenced), aClass(storagev1.VolumeBindingImmediate),
		aClaim(boundClaim), boundVolume("claim", retainedVolume))...)
}

func TestFenceListsThePodsThatStillUseTheVolume(t *testing.T) {
	ofMove := func(id string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{volume.LabelMove: id} }
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	other := func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "other" }
	for _, test := range []struct {
		name         string
		pods         []client.Object
		users, pods2 []string
	}{
		{name: "none"},
		{name: "application", pods: []client.Object{aPod("db-1"), aPod("db-0")}, users: []string{"db-0", "db-1"}, pods2: []string{"db-0", "db-1"}},
		{name: "sender of this move", pods: []client.Object{aPod("sender", ofMove("move-1"))}, pods2: []string{"sender"}},
		{name: "sender of another move", pods: []client.Object{aPod("sender", ofMove("move-2"))}, users: []string{"sender"}, pods2: []string{"sender"}},
		{name: "ended pod", pods: []client.Object{aPod("db-0", ended)}},
		{name: "pod of another claim", pods: []client.Object{aPod("db-0", other)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := boundWorld(t, test.pods...)
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			want := &v1alpha1.VolumeFenceStatus{ID: "move-1", Users: test.users}
			if diff := cmp.Diff(want, w.shadow().Status.Fence); diff != "" {
				t.Errorf("fence (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.pods2, w.shadow().Status.Pods); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodDeletedByForceUsesTheVolumeUntilItsNodeEndedIt(t *testing.T) {
	users := func(w *world) []string {
		t.Helper()
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
		return w.shadow().Status.Fence.Users
	}
	for name, end := range map[string]func(*corev1.Node){
		"node was deleted":   nil,
		"node was restarted": func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" },
		"node is out of service": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := boundWorld(t)
			w.reconciler.vanished.add(aPod("db-0"), w.reconciler.bootOf(t.Context(), "worker"), time.Time{})
			w.reconciler.vanished.add(aPod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "", time.Time{})
			w.reconciler.vanished.add(aPod("unscheduled", func(p *corev1.Pod) { p.Spec.NodeName = "" }), "", time.Time{})
			if diff := cmp.Diff([]string{"db-0"}, users(w)); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
			w.restart()
			if diff := cmp.Diff([]string{"db-0"}, users(w)); diff != "" {
				t.Errorf("users after a restart of the process (-want +got):\n%s", diff)
			}
			if end == nil {
				w.must(w.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}))
			} else {
				kittest.Change(w.Cluster, "", "worker", &corev1.Node{}, end)
			}
			if got := users(w); len(got) > 0 {
				t.Errorf("users %v, want none", got)
			}
			if _, left := w.claim().Annotations[annotationUnended]; left {
				t.Error("the pod is still recorded on the claim")
			}
		})
	}
}

func TestPodThatTheWatchMissedUsesTheVolumeForItsGracePeriod(t *testing.T) {
	ready := func(status corev1.ConditionStatus, since, heartbeat time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(kittest.Epoch.Add(since)),
				LastHeartbeatTime: metav1.NewTime(kittest.Epoch.Add(heartbeat)),
			}}
		}
	}
	grace := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(120)) }
	type events = handler.EventHandler
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	deleted := func(h events, q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: aPod("db-0", grace)}, q) }
	missed := func(h events, q queue) {
		h.Delete(t.Context(), event.DeleteEvent{Object: aPod("db-0", grace), DeleteStateUnknown: true}, q)
	}
	replaced := func(h events, q queue) {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: aPod("db-0", grace),
			ObjectNew: aPod("db-0", func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "another", "other" })}, q)
	}
	changed := func(h events, q queue) {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: aPod("db-0", grace), ObjectNew: aPod("db-0")}, q)
	}
	const day = 24 * time.Hour
	for _, test := range []struct {
		name  string
		event func(events, queue)
		node  func(*corev1.Node)
		after time.Duration
		uses  bool
	}{
		{"deleted by force", deleted, ready(corev1.ConditionTrue, -time.Hour, day), day, true},
		{"missed, at once", missed, ready(corev1.ConditionTrue, -time.Hour, 0), 0, true},
		{"missed, in the grace period", missed, ready(corev1.ConditionTrue, -time.Hour, 179*time.Second), 179 * time.Second,
			true},
		{"missed, after the grace period", missed, ready(corev1.ConditionTrue, -time.Hour, 2*time.Minute), 3 * time.Minute,
			false},
		{"missed, no heartbeat since", missed, ready(corev1.ConditionTrue, -time.Hour, -time.Second), day, true},
		{"missed, no heartbeat after the grace period", missed, ready(corev1.ConditionTrue, -time.Hour, 119*time.Second), day,
			true},
		{"missed, node was not ready", missed, ready(corev1.ConditionTrue, time.Minute, 2*time.Minute), 3 * time.Minute, true},
		{"missed, node has been ready again", missed, ready(corev1.ConditionTrue, time.Minute, 2*time.Minute),
			4 * time.Minute, false},
		{"missed, node is not ready", missed, ready(corev1.ConditionFalse, -time.Hour, day), day, true},
		{"missed, node is unknown", missed, ready(corev1.ConditionUnknown, -time.Hour, day), day, true},
		{"replaced, at once", replaced, ready(corev1.ConditionTrue, -time.Hour, 0), 0, true},
		{"replaced, after the grace period", replaced, ready(corev1.ConditionTrue, -time.Hour, 2*time.Minute),
			3 * time.Minute, false},
		{"replaced, node is unknown", replaced, ready(corev1.ConditionUnknown, -time.Hour, day), day, true},
		{"changed", changed, ready(corev1.ConditionTrue, -time.Hour, 0), 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := boundWorld(t)
			kittest.Change(w.Cluster, "", "worker", &corev1.Node{}, test.node)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			test.event(w.reconciler.podHandler(), queue)
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.Clock.SetTime(kittest.Epoch.Add(test.after))
			after, err := w.pass()
			if err != nil {
				t.Fatal(err)
			}
			if uses := len(w.shadow().Status.Fence.Users) > 0; uses != test.uses || uses != (after == fenceCheck) {
				t.Errorf("uses the volume: %v, want %v; checked again after %v", uses, test.uses, after)
			}
		})
	}
}

func TestFenceIsConfirmedByTheAPIServer(t *testing.T) {
	w := boundWorld(t)
	w.reconciler.Live = boundWorld(t, aPod("unseen"))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"unseen"}, w.shadow().Status.Fence.Users); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}
