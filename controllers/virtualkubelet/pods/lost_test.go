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
	"liqo.io/federation/test/fakes"
)

// endingThere returns a remote pod that is being deleted with a grace period of ten seconds.
func endingThere(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:                  "demo-rome",
		Name:                       "web",
		UID:                        uid,
		DeletionTimestamp:          &metav1.Time{Time: time.Unix(1, 0)},
		DeletionGracePeriodSeconds: ptr.To[int64](10),
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// kept returns a remote pod as the cache has it.
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
	const timeout = 10*time.Second + lostGrace
	owned := localPod("web")
	owned.OwnerReferences = []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)},
	}
	ended := endingThere("1")
	ended.Status.Phase = corev1.PodSucceeded
	stays := endingThere("1")
	stays.DeletionTimestamp = nil
	longGrace, shortGrace := endingThere("1"), endingThere("1")
	longGrace.DeletionGracePeriodSeconds, shortGrace.DeletionGracePeriodSeconds = ptr.To[int64](
		math.MaxInt64,
	), ptr.To[int64](
		-1<<40,
	)
	again := endingThere("2")
	again.DeletionTimestamp = nil
	type look struct {
		after     time.Duration
		remotePod *corev1.Pod
		// live is the remote pod in the provider's API server; nil means the cached one.
		live *corev1.Pod
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		looks   []look
		deleted int
	}{
		{
			"before the timeout", owned,
			[]look{{0, endingThere("1"), nil}, {timeout - time.Second, endingThere("1"), nil}}, 0,
		},
		{
			"after the timeout, deleted once", owned,
			[]look{{0, endingThere("1"), nil}, {timeout, endingThere("1"), nil}, {time.Second, endingThere("1"), nil}},
			1,
		},
		{
			"a new remote pod starts the timeout again", owned,
			[]look{
				{0, endingThere("1"), nil}, {time.Second, nil, nil}, {timeout, endingThere("2"), nil},
				{time.Second, endingThere("2"), nil},
			},
			0,
		},
		{
			"a new remote pod, end of the earlier one not cached", owned,
			[]look{{0, endingThere("1"), nil}, {timeout, endingThere("2"), nil}}, 0,
		},
		{
			"replaced, not observed yet", owned, []look{{0, endingThere("1"), nil}, {timeout, endingThere("1"), again}},
			0,
		},
		{"excessive grace period", owned, []look{{0, longGrace, nil}, {time.Hour, longGrace, nil}}, 0},
		{"excessive grace period, after a day", owned, []look{{0, longGrace, nil}, {25 * time.Hour, longGrace, nil}}, 1},
		{"negative grace period", owned, []look{{0, shortGrace, nil}, {lostGrace - time.Second, shortGrace, nil}}, 0},
		{"not deleted", owned, []look{{0, stays, nil}, {timeout, stays, nil}}, 0},
		{"ended", owned, []look{{0, endingThere("1"), nil}, {timeout, ended, nil}}, 0},
		{
			"without a controller", localPod("web"),
			[]look{{0, endingThere("1"), nil}, {timeout, endingThere("1"), nil}}, 0,
		},
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
				if live := cmp.Or(look.live, look.remotePod); live != nil {
					s.Remote.Core = kubefake.NewSimpleClientset(live)
				}
				if err := s.deleteLost(
					t.Context(), cache.MetaObjectToName(test.pod), test.pod, kept(t, look.remotePod),
				); err != nil {
					t.Fatal(err)
				}
			}
			deleted, disrupted := 0, 0
			for _, action := range local.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok && action.GetSubresource() == "status" &&
					strings.Contains(string(patch.GetPatch()), `"DisruptionTarget"`) {
					if disrupted++; deleted > 0 {
						t.Error("the pod is deleted before its condition DisruptionTarget is set")
					}
				}
				if action.Matches("delete", "pods") {
					deleted++
					if got := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID; got == nil ||
						*got != test.pod.UID {
						t.Errorf("a pod with another UID would be deleted: %v", got)
					}
				}
			}
			if disrupted != test.deleted {
				t.Errorf("%d patches with the disruption, want %d", disrupted, test.deleted)
			}
			if deleted != test.deleted {
				t.Errorf("the pod was deleted %d times, want %d", deleted, test.deleted)
			}
			if len(s.events.Events) != test.deleted {
				t.Errorf("%d events", len(s.events.Events))
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
	pod.OwnerReferences = []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: "web", UID: "set", Controller: ptr.To(true)},
	}
	local := kubefake.NewSimpleClientset(pod)
	refusal := errors.New("not now")
	fakes.React(
		local,
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
		t.Errorf("deleting the lost pod: %v", err)
	}
	refusal = nil
	if err := s.deleteLost(t.Context(), key, pod, kept(t, endingThere("1"))); err != nil || len(s.events.Events) != 1 {
		t.Errorf("%d events, %v", len(s.events.Events), err)
	}
}
