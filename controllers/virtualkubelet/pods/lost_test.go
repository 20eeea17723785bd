// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"errors"
	"math"
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

	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// endingThere is a pod of the provider that somebody there deletes, with a grace
// period of ten seconds.
func endingThere(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:                  "demo-rome",
		Name:                       "web",
		UID:                        uid,
		DeletionTimestamp:          &metav1.Time{Time: time.Unix(1, 0)},
		DeletionGracePeriodSeconds: ptr.To[int64](10),
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// kept is a pod of the provider as it is in the cache.
func kept(t *testing.T, pod *corev1.Pod) *translate.RemotePod {
	t.Helper()
	if pod == nil {
		return nil
	}
	trimmed, err := remotens.TrimRemotePod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return trimmed.(*translate.RemotePod)
}

func TestPodOnALostNodeOfTheProviderIsDeleted(t *testing.T) {
	const patience = 10*time.Second + lostGrace
	owned := localPod("web")
	owned.OwnerReferences = []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)},
	}
	ended := endingThere("1")
	ended.Status.Phase = corev1.PodSucceeded
	stays := endingThere("1")
	stays.DeletionTimestamp = nil
	patient, hasty := endingThere("1"), endingThere("1")
	patient.DeletionGracePeriodSeconds, hasty.DeletionGracePeriodSeconds = ptr.To[int64](
		math.MaxInt64,
	), ptr.To[int64](
		-1<<40,
	)
	again := endingThere("2")
	again.DeletionTimestamp = nil
	type look struct {
		after time.Duration
		there *corev1.Pod
		// live is what the provider has by now; nil if that is the same.
		live *corev1.Pod
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		looks   []look
		deleted int
	}{
		{"not before its time", owned, []look{{0, endingThere("1"), nil}, {patience - time.Second, endingThere("1"), nil}}, 0},
		{"then once", owned, []look{{0, endingThere("1"), nil}, {patience, endingThere("1"), nil}, {time.Second, endingThere("1"), nil}}, 1},
		{"one that comes again has its time again", owned, []look{{0, endingThere("1"), nil}, {time.Second, nil, nil}, {patience, endingThere("2"), nil}, {time.Second, endingThere("2"), nil}}, 0},
		{"also where its end was not seen", owned, []look{{0, endingThere("1"), nil}, {patience, endingThere("2"), nil}}, 0},
		{"not if it was made again, which the cache has yet to see", owned, []look{{0, endingThere("1"), nil}, {patience, endingThere("1"), again}}, 0},
		{"not before a grace period of no end", owned, []look{{0, patient, nil}, {time.Hour, patient, nil}}, 0},
		{"but after a day", owned, []look{{0, patient, nil}, {25 * time.Hour, patient, nil}}, 1},
		{"not at once for a grace period of less than nothing", owned, []look{{0, hasty, nil}, {lostGrace - time.Second, hasty, nil}}, 0},
		{"not if nobody deletes it", owned, []look{{0, stays, nil}, {patience, stays, nil}}, 0},
		{"not if it has ended", owned, []look{{0, endingThere("1"), nil}, {patience, ended, nil}}, 0},
		{"not if nobody would make another one", localPod("web"), []look{{0, endingThere("1"), nil}, {patience, endingThere("1"), nil}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSender(t, func(string) error { return nil })
			local := kubefake.NewSimpleClientset(test.pod)
			s.Local = local
			clock := clocktesting.NewFakePassiveClock(time.Now())
			s.Clock = clock
			for _, look := range test.looks {
				clock.SetTime(clock.Now().Add(look.after))
				s.Remote.Core = kubefake.NewSimpleClientset()
				if live := cmp.Or(look.live, look.there); live != nil {
					s.Remote.Core = kubefake.NewSimpleClientset(live)
				}
				if err := s.deleteLost(t.Context(), cache.MetaObjectToName(test.pod), test.pod, kept(t, look.there)); err != nil {
					t.Fatal(err)
				}
			}
			deleted, disrupted := 0, 0
			for _, action := range local.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok && action.GetSubresource() == "status" &&
					strings.Contains(string(patch.GetPatch()), `"DisruptionTarget"`) {
					if disrupted++; deleted > 0 {
						t.Error("it is deleted before it is said to be disrupted")
					}
				}
				if action.Matches("delete", "pods") {
					deleted++
					if got := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID; got == nil ||
						*got != test.pod.UID {
						t.Errorf("another pod of that name would be deleted: %v", got)
					}
				}
			}
			if disrupted != test.deleted {
				t.Errorf("it was said to be disrupted %d times, want %d", disrupted, test.deleted)
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

func TestLostPodIsDeletedOnceThatIsPossible(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	pod := localPod("web")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)}}
	local := kubefake.NewSimpleClientset(pod)
	refusal := errors.New("not now")
	local.PrependReactor(
		"delete",
		"pods",
		func(clienttesting.Action) (bool, runtime.Object, error) { return refusal != nil, nil, refusal },
	)
	s.Local, s.Remote.Core = local, kubefake.NewSimpleClientset(endingThere("1"))
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.Clock = clock
	key := cache.MetaObjectToName(pod)
	if err := s.deleteLost(t.Context(), key, pod, kept(t, endingThere("1"))); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if err := s.deleteLost(t.Context(), key, pod, kept(t, endingThere("1"))); !errors.Is(err, refusal) {
		t.Errorf("it ends with %v", err)
	}
	refusal = nil
	if err := s.deleteLost(t.Context(), key, pod, kept(t, endingThere("1"))); err != nil || len(s.events.Events) != 1 {
		t.Errorf("%d events, %v", len(s.events.Events), err)
	}
}
