// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// endingThere is a pod of the provider that somebody there deletes, with a grace
// period of ten seconds.
func endingThere(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", UID: uid, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, DeletionGracePeriodSeconds: ptr.To[int64](10),
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

func TestAPodThatIsLostThereIsMadeAnew(t *testing.T) {
	const patience = 10*time.Second + lostPatience
	owned := localPod("web")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)}}
	ended := endingThere("1")
	ended.Status.Phase = corev1.PodSucceeded
	stays := endingThere("1")
	stays.DeletionTimestamp = nil
	type look struct {
		after time.Duration
		there *corev1.Pod
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		looks   []look
		deleted int
	}{
		{"not before its time", owned, []look{{0, endingThere("1")}, {patience - time.Second, endingThere("1")}}, 0},
		{"then once", owned, []look{{0, endingThere("1")}, {patience, endingThere("1")}, {time.Second, endingThere("1")}}, 1},
		{"one that comes again has its time again", owned, []look{{0, endingThere("1")}, {time.Second, nil}, {patience, endingThere("2")}, {time.Second, endingThere("2")}}, 0},
		{"also where its end was not seen", owned, []look{{0, endingThere("1")}, {patience, endingThere("2")}}, 0},
		{"not if nobody deletes it", owned, []look{{0, stays}, {patience, stays}}, 0},
		{"not if it has ended", owned, []look{{0, endingThere("1")}, {patience, ended}}, 0},
		{"not if nobody would make another one", localPod("web"), []look{{0, endingThere("1")}, {patience, endingThere("1")}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSender(t, func(string) error { return nil })
			local := kubefake.NewSimpleClientset(test.pod)
			s.local = local
			clock := clocktesting.NewFakePassiveClock(time.Now())
			s.clock = clock
			for _, look := range test.looks {
				clock.SetTime(clock.Now().Add(look.after))
				if err := s.giveUp(t.Context(), cache.MetaObjectToName(test.pod), test.pod, look.there); err != nil {
					t.Fatal(err)
				}
			}
			deleted := 0
			for _, action := range local.Actions() {
				if action.Matches("delete", "pods") {
					deleted++
					if got := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID; got == nil || *got != test.pod.UID {
						t.Errorf("another pod of that name would be deleted: %v", got)
					}
				}
			}
			if deleted != test.deleted {
				t.Errorf("the pod was deleted %d times, want %d", deleted, test.deleted)
			}
			if len(s.events.Events) != test.deleted {
				t.Errorf("its owner is told %d times", len(s.events.Events))
			} else if test.deleted > 0 {
				if event := <-s.events.Events; !strings.Contains(event, ReasonProviderNodeLost) {
					t.Errorf("the event is %q", event)
				}
			}
		})
	}
}

func TestAPodThatIsLostIsDeletedOnceItCanBe(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	pod := localPod("web")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)}}
	local := kubefake.NewSimpleClientset(pod)
	refusal := errors.New("not now")
	local.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return refusal != nil, nil, refusal })
	s.local = local
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.clock = clock
	key := cache.MetaObjectToName(pod)
	if err := s.giveUp(t.Context(), key, pod, endingThere("1")); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if err := s.giveUp(t.Context(), key, pod, endingThere("1")); !errors.Is(err, refusal) {
		t.Errorf("it ends with %v", err)
	}
	refusal = nil
	if err := s.giveUp(t.Context(), key, pod, endingThere("1")); err != nil || len(s.events.Events) != 1 {
		t.Errorf("%d events, %v", len(s.events.Events), err)
	}
}
