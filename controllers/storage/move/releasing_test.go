// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPodsThatWereCreatedWithoutTheClaimAreReplacedIfTheTargetIsOnAProvider(t *testing.T) {
	owned := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "db", UID: "1", Controller: ptr.To(true)},
		}
	}
	pods := map[string]func(*corev1.Pod){
		"confined":           func(*corev1.Pod) {},
		"without-controller": func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		"gated": func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving}}
		},
		"anywhere": func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
		},
		"scheduled":   func(pod *corev1.Pod) { pod.Spec.NodeName = "worker" },
		"other-claim": func(pod *corev1.Pod) { pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "logs" },
	}
	for target, want := range map[string][]string{"": nil, "9f1c": {"confined"}} {
		t.Run("cluster "+target, func(t *testing.T) {
			w := newWorld(t, online())
			w.runsWithoutStatefulSet()
			w.settle()
			w.stopAt(v1alpha1.MoveReleasing)
			vv := w.virtualVolume()
			vv.Status.Move.Target.ClusterID = target
			w.must(w.kube.Status().Update(t.Context(), vv))
			for name, change := range pods {
				pod := podOf(name)
				w.number(pod)
				owned(pod)
				change(pod)
				w.must(w.kube.Create(t.Context(), pod))
			}
			w.kube.Writes = nil
			w.reconcile()
			var evicted []string
			for _, write := range w.kube.Writes {
				if write.Verb == "create eviction" {
					evicted = append(evicted, write.Name)
				}
			}
			if diff := cmp.Diff(want, evicted); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedRequestDoesNotKeepOtherPodsWaiting(t *testing.T) {
	for _, refused := range []string{"b", claimName} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %t", refused, cancelled), func(t *testing.T) {
				w := newWorld(t, online())
				w.runsWithoutStatefulSet()
				w.settle()
				w.stopAt(v1alpha1.MoveFinalCopy)
				for _, name := range []string{"a", "b", "c"} {
					pod := podOf(name)
					w.number(pod)
					pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateMoving}}
					w.must(w.kube.Create(t.Context(), pod))
				}
				end := v1alpha1.MoveSucceeded
				if cancelled {
					end = v1alpha1.MoveCancelled
					w.cancel()
					w.until(v1alpha1.MoveRollingBack)
				} else {
					w.stopAt(v1alpha1.MoveReleasing)
				}
				w.refusedPatches = map[string]error{refused: exceeded}
				for range 5 {
					w.reconcile()
				}
				for _, name := range []string{"a", "b", "c"} {
					if held := isGated(get(w, name, &corev1.Pod{})); held != (name == refused) {
						t.Errorf("pod %s has a scheduling gate: %t", name, held)
					}
				}
				w.refusedPatches = nil
				w.until(end)
				if isGated(get(w, "b", &corev1.Pod{})) {
					t.Error("pod b still has its scheduling gate")
				}
			})
		}
	}
}
