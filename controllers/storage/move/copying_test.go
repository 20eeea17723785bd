// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestSenderFollowsThePodsToAnotherNode(t *testing.T) {
	const long, short = time.Minute, 10 * time.Second
	// user is the node of a pod that mounts the claim, its phase and conditions, and the time since it was scheduled.
	type user struct {
		node       string
		phase      corev1.PodPhase
		conditions []corev1.PodCondition
		age        time.Duration
	}
	mounted := []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	for _, test := range []struct {
		name   string
		mode   corev1.PersistentVolumeAccessMode
		sender corev1.PodPhase
		users  []user
		// follows means that the sender is replaced by one on the node other.
		follows bool
	}{
		{"no pod", corev1.ReadWriteOnce, corev1.PodRunning, nil, false},
		{"a pod on the same node", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"worker", corev1.PodPending, nil, long}}, false},
		{"a pod on another node", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"other", corev1.PodPending, nil, long}}, true},
		{"a pod that starts on another node", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"other", corev1.PodPending, nil, short}}, false},
		{"a pod that mounted the volume on another node", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"other", corev1.PodPending, mounted, long}}, false},
		{"a pod that runs on another node", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"other", corev1.PodRunning, nil, long}}, false},
		{"a pod that runs on another node before the sender starts", corev1.ReadWriteOnce, corev1.PodPending,
			[]user{{"other", corev1.PodRunning, nil, long}}, true},
		{"pods on both nodes", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"other", corev1.PodPending, nil, long}, {"worker", corev1.PodPending, nil, long}}, false},
		{"a pod that is not scheduled", corev1.ReadWriteOnce, corev1.PodRunning,
			[]user{{"", corev1.PodPending, nil, long}}, false},
		{"a pod on another node of a volume for several nodes", corev1.ReadWriteMany, corev1.PodRunning,
			[]user{{"other", corev1.PodPending, nil, long}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, online())
			claim := get(w, claimName, &corev1.PersistentVolumeClaim{})
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{test.mode}
			w.must(w.kube.Update(t.Context(), claim))
			w.settle()
			w.stopAt(v1alpha1.MoveCopying)
			sender := func() *corev1.Pod {
				pod := &corev1.Pod{}
				key := client.ObjectKey{Namespace: namespace, Name: namesOf(moveID).sender}
				if err := w.kube.Get(t.Context(), key, pod); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				return pod
			}
			for sender().Spec.NodeName == "" {
				w.reconcile()
			}
			scheduled := func(age time.Duration) corev1.PodCondition {
				return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(w.kube.Clock.Now().Add(-age))}
			}
			// A sender that copies is not ready.
			first := sender()
			first.Status.Phase, first.Status.Conditions = test.sender, []corev1.PodCondition{scheduled(long)}
			w.store(first)
			w.noStatefulSet = true
			w.must(w.kube.Delete(t.Context(), get(w, appName, &corev1.Pod{})))
			for i, user := range test.users {
				pod := podOf([]string{"user-0", "user-1"}[i])
				w.number(pod)
				pod.Spec.NodeName = user.node
				pod.Status.Phase = user.phase
				pod.Status.Conditions = append(slices.Clone(user.conditions), scheduled(user.age))
				w.must(w.kube.Create(t.Context(), pod))
			}
			for range 4 {
				w.reconcile()
			}
			want := "worker"
			if test.follows {
				want = "other"
			}
			if last := sender(); last.Spec.NodeName != want || (last.UID != first.UID) != test.follows {
				t.Errorf("the sender %s on node %s was replaced by %s on node %s", first.UID, first.Spec.NodeName, last.UID,
					last.Spec.NodeName)
			}
		})
	}
}
