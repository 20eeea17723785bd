// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestSenderFollowsThePodsToAnotherNode(t *testing.T) {
	for _, test := range []struct {
		name    string
		mode    corev1.PersistentVolumeAccessMode
		users   []string
		follows bool
	}{
		{"no pod", corev1.ReadWriteOnce, nil, false},
		{"a pod on the same node", corev1.ReadWriteOnce, []string{"worker"}, false},
		{"a pod on another node", corev1.ReadWriteOnce, []string{"other"}, true},
		{"pods on both nodes", corev1.ReadWriteOnce, []string{"other", "worker"}, false},
		{"a pod that is not scheduled", corev1.ReadWriteOnce, []string{""}, false},
		{"a pod on another node of a volume for several nodes", corev1.ReadWriteMany, []string{"other"}, false},
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
			// The sender copies, and so is not ready.
			first := sender()
			first.Status.Conditions = nil
			w.store(first)
			w.noStatefulSet = true
			w.must(w.kube.Delete(t.Context(), get(w, appName, &corev1.Pod{})))
			for i, node := range test.users {
				pod := podOf([]string{"user-0", "user-1"}[i])
				w.number(pod)
				pod.Spec.NodeName = node
				// The kubelet cannot mount the volume yet.
				pod.Status.Phase = corev1.PodPending
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
