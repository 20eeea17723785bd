// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

var (
	shadowPods = v1alpha1.Resource("shadowpods")
	forbidden  = apierrors.NewForbidden(shadowPods, "web", errors.New("the role is bound in a moment"))
	invalid    = apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("ShadowPod").GroupKind(), "web", nil)
)

// sender is a controller whose provider responds as the test specifies.
type sender struct {
	*Controller
	provider        *fedfake.Clientset
	events          *record.FakeRecorder
	remoteNamespace *remotens.Namespace
}

func newSender(t *testing.T, answer func(verb string) error) *sender {
	t.Helper()
	own, err := NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{provider: fedfake.NewSimpleClientset(), events: record.NewFakeRecorder(100)}
	fakes.React(s.provider, "*", "shadowpods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := answer(action.GetVerb())
		return err != nil, nil, err
	})
	s.Controller = &Controller{Config: Config{
		NodeName: "liqo-milan",
		Provider: "milan",
		To:       translate.Destination{OriginID: "rome", DestinationID: "milan", NodeName: "liqo-milan"},
		Lister:   corev1listers.NewPodLister(kittest.Indexer()),
		Remote: remotens.Clients{
			Federation: s.provider,
		},
		Recorder: s.events,
		Metrics:  own,
		Clock:    clocktesting.NewFakePassiveClock(metav1.Now().Time),
		Patch:    func() *v1alpha1.OffloadingPatch { return nil },
	}, moves: rate.NewLimiter(movesPerSecond, 1), statuses: rate.NewLimiter(statusesPerSecond, statusesAtOnce)}
	s.queue = s.newQueue()
	t.Cleanup(s.queue.ShutDown)
	s.remoteNamespace = &remotens.Namespace{
		Local:   "demo",
		Remote:  "demo-rome",
		Shadows: cache.NewSharedIndexInformer(nil, &v1alpha1.ShadowPod{}, 0, cache.Indexers{}),
	}
	return s
}

func localPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "pod"},
		Spec: corev1.PodSpec{
			NodeName: "liqo-milan", Containers: []corev1.Container{{Name: "app", Image: "web:1"}},
		},
	}
}

func TestOnlyInvalidEphemeralContainersAreRefusedForGood(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  error
		refused bool
	}{
		{"invalid", invalid, true},
		{"malformed", apierrors.NewBadRequest("no"), true},
		{"too large", apierrors.NewRequestEntityTooLargeError("no"), true},
		{"forbidden", forbidden, false},
		{"no response", apierrors.NewServiceUnavailable("no"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var answer error
			s := newSender(t, func(verb string) error {
				if verb == "update" {
					return answer
				}
				return nil
			})
			pod := localPod("web")
			if err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace); err != nil {
				t.Fatal(err)
			}
			seen, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(
				t.Context(), "web", metav1.GetOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}},
			}
			answer = test.answer
			refused, err := s.update(t.Context(), pod, seen)
			if (len(refused.containers) == 1) != test.refused || (err == nil) != test.refused {
				t.Errorf("refused %v, %v", refused, err)
			}
			if reported := len(s.events.Events) > 0; reported != remote.Refused(test.answer) {
				t.Errorf("event: %t", reported)
			}
			// The next attempt succeeds.
			answer = nil
			if refused, err = s.update(t.Context(), pod, seen); err != nil || len(refused.containers) > 0 {
				t.Errorf("refused %v, %v, of a provider that allows it", refused, err)
			}
		})
	}
}

// A webhook of the provider may forbid an ephemeral container permanently. The container is retried, and other changes
// of the pod are sent.
func TestForbiddenEphemeralContainerDelaysNoOtherChange(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	fakes.React(s.provider, "update", "shadowpods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		shadow := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.ShadowPod)
		return len(shadow.Spec.Pod.EphemeralContainers) > 0, nil, forbidden
	})
	pod := localPod("web")
	if err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace); err != nil {
		t.Fatal(err)
	}
	get := func() *v1alpha1.ShadowPod {
		t.Helper()
		shadow, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(
			t.Context(), "web", metav1.GetOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		return shadow
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}},
	}
	pod.Spec.Containers[0].Image = "web:2"
	for range 2 {
		if refused, err := s.update(t.Context(), pod, get()); !apierrors.IsForbidden(err) ||
			len(refused.containers) > 0 {
			t.Errorf("refused %v, %v", refused, err)
		}
		if image := get().Spec.Pod.Containers[0].Image; image != "web:2" {
			t.Errorf("the image is %s", image)
		}
	}
}

// full returns the error of a provider whose quota for the consumer does not suffice.
func full() error {
	answer := apierrors.NewForbidden(shadowPods, "", errors.New("the grant is exceeded"))
	answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseQuotaExceeded, Field: "cpu"}}
	return answer
}

func TestRefusedResizeIsReportedAndDelaysNoOtherChange(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	for _, test := range []struct {
		name                 string
		answer               error
		waits                bool
		event, reason, words string
	}{
		{
			"no quota", full(), true, ReasonQuotaExceeded, corev1.PodReasonDeferred,
			"milan has no room to resize the pod",
		},
		{
			"forbidden", forbidden, false, v1alpha1.ReasonProviderRefused, corev1.PodReasonInfeasible,
			"milan refuses to resize the pod",
		},
		{
			"older provider", invalid, false, v1alpha1.ReasonProviderRefused, corev1.PodReasonInfeasible,
			"milan refuses to resize the pod",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := test.answer
			s := newSender(t, func(string) error { return nil })
			fakes.React(s.provider, "update", "shadowpods", func(action clienttesting.Action) (
				bool, runtime.Object, error,
			) {
				shadow := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.ShadowPod)
				return answer != nil &&
					shadow.Spec.Pod.Containers[0].Resources.Requests.Cpu().String() == "2", nil, answer
			})
			pod := localPod("web")
			pod.Spec.Containers[0].Resources.Requests = cpu("1")
			key := cache.MetaObjectToName(pod)
			if err := s.create(t.Context(), key, pod, s.remoteNamespace); err != nil {
				t.Fatal(err)
			}
			seen := func() *v1alpha1.ShadowPod {
				t.Helper()
				shadow, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(
					t.Context(), "web", metav1.GetOptions{},
				)
				if err != nil {
					t.Fatal(err)
				}
				trimmed, err := remotens.TrimShadowPod(shadow)
				if err != nil {
					t.Fatal(err)
				}
				return trimmed.(*v1alpha1.ShadowPod)
			}
			pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Image = cpu("2"), "web:2"
			for range 2 {
				refused, err := s.update(t.Context(), pod, seen())
				if err == nil || refused.resize == nil {
					t.Fatalf("refused %v, %v", refused, err)
				}
				s.deferResize(pod, &pod.Status, refused.resize)
			}
			if got := seen().Spec.Pod.Containers[0]; got.Image != "web:2" ||
				got.Resources.Requests.Cpu().String() != "1" {
				t.Errorf("the shadow pod has %+v", got)
			}
			if len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Type != corev1.PodResizePending ||
				pod.Status.Conditions[0].Reason != test.reason ||
				!strings.Contains(pod.Status.Conditions[0].Message, test.words) {
				t.Errorf("the pod has the conditions %+v", pod.Status.Conditions)
			}
			if got := <-s.events.Events; !strings.HasPrefix(got, "Warning "+test.event) || len(s.events.Events) > 0 {
				t.Errorf("event %q, and %d more", got, len(s.events.Events))
			}
			if waits := s.states.unblock(key, overQuota); waits != test.waits {
				t.Errorf("the pod is blocked: %t", waits)
			}
			s.states.block(key, overQuota)
			answer = nil
			if refused, err := s.update(t.Context(), pod, seen()); err != nil || refused.resize != nil {
				t.Errorf("refused %v, %v, of a provider that allows it", refused, err)
			}
			if got := seen().Spec.Pod.Containers[0].Resources.Requests.Cpu().String(); got != "2" {
				t.Errorf("the shadow pod requests %s", got)
			}
			if s.states.unblock(key, overQuota) {
				t.Error("the pod still waits for quota")
			}
		})
	}
}

func TestFreedQuotaIsUsedAtOnce(t *testing.T) {
	room := 0
	s := newSender(t, func(verb string) error {
		if verb != "create" {
			return nil
		}
		if room--; room < 0 {
			return full()
		}
		return nil
	})
	const pods = 3*triedAtOnce + 1
	send := func(pod *corev1.Pod) error {
		return s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace)
	}
	for i := range pods {
		if err := send(
			localPod(fmt.Sprintf("web-%d", i)),
		); !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) {
			t.Fatalf("pod %d: %v", i, err)
		}
	}
	if s.queue.Len() > 0 {
		t.Fatal("pods are retried although the quota is exceeded")
	}
	// work reconciles all enqueued pods. It returns how many it tried and how many the provider accepted.
	work := func() (tried, fit int) {
		for s.queue.Len() > 0 {
			key, _ := s.queue.Get()
			tried++
			if err := send(localPod(key.Name)); err == nil {
				fit++
			} else if !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) {
				t.Fatal(err)
			}
			s.queue.Done(key)
		}
		return tried, fit
	}
	// free reports several times that quota was released, which enqueues only some of the blocked pods.
	free := func() {
		s.Clock.(*clocktesting.FakePassiveClock).SetTime(s.Clock.Now().Add(2 * tryPause))
		for range 10 {
			s.roomFreed(overQuota)
		}
	}
	room = 0
	free()
	if tried, fit := work(); tried != triedAtOnce || fit != 0 {
		t.Errorf("without quota: %d tried, %d accepted", tried, fit)
	}
	room = pods - 1
	free()
	if tried, fit := work(); fit != pods-1 || tried > pods+triedAtOnce {
		t.Errorf("with quota for all but one pod: %d tried, %d accepted", tried, fit)
	}
	free()
	if tried, _ := work(); tried != 1 {
		t.Errorf("%d pods are left", tried)
	}
	s.LocalEvents().OnDelete(func() *corev1.Pod {
		for key := range s.states.blocked[overQuota] {
			return localPod(key.Name)
		}
		return nil
	}())
	if left := s.states.someBlocked(overQuota, pods); len(left) > 0 {
		t.Errorf("%v wait although they were deleted", left)
	}
}

func TestQuotaIsFreedWhenAShadowPodEndsOrIsDeleted(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	s.Remote.Core = kubefake.NewClientset()
	freed, tidied, seen, synced := make(
		chan bool,
		10,
	), make(
		chan bool,
		10,
	), make(
		chan cache.ObjectName,
		10,
	), make(
		chan string,
		1,
	)
	if _, err := remotens.Start(
		t.Context(),
		s.Remote,
		v1alpha1.NamespaceMapping{Name: "demo", RemoteName: "demo-rome"},
		s.To,
		remotens.Events{
			Shadow: func(key cache.ObjectName) { seen <- key }, Pod: func(cache.ObjectName, *translate.RemotePod) {},
			Freed: func() { freed <- true }, Tidied: func() { tidied <- true },
			Synced: func(name string) { synced <- name },
		},
	); err != nil {
		t.Fatal(err)
	}
	<-synced
	shadows := s.provider.FederationV1alpha1().ShadowPods("demo-rome")
	allocated := func(amounts corev1.ResourceList) error {
		shadow, err := shadows.Get(t.Context(), "next", metav1.GetOptions{})
		if err == nil {
			shadow.Status.AllocatedResources = amounts
			_, err = shadows.UpdateStatus(t.Context(), shadow, metav1.UpdateOptions{})
		}
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
		news int
	}{
		{"shadow pod is created", func() error {
			_, err := shadows.Create(
				t.Context(), translate.ShadowPod(localPod("web"), "demo-rome", s.To, nil), metav1.CreateOptions{},
			)
			return err
		}, 0},
		{"shadow pod ends", func() error {
			shadow, err := shadows.Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil {
				shadow.Status.Phase = corev1.PodSucceeded
				_, err = shadows.UpdateStatus(t.Context(), shadow, metav1.UpdateOptions{})
			}
			return err
		}, 1},
		{"ended shadow pod is deleted", func() error { return shadows.Delete(t.Context(), "web", metav1.DeleteOptions{}) }, 0},
		{"second shadow pod is created", func() error {
			_, err := shadows.Create(
				t.Context(), translate.ShadowPod(localPod("next"), "demo-rome", s.To, nil), metav1.CreateOptions{},
			)
			return err
		}, 0},
		{
			"smaller resources are allocated",
			func() error { return allocated(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}) }, 0,
		},
		{"larger resources are released", func() error { return allocated(nil) }, 1},
		{
			"running shadow pod is deleted",
			func() error { return shadows.Delete(t.Context(), "next", metav1.DeleteOptions{}) }, 1,
		},
		// The event of the last step shows that all earlier events were handled.
		{"last shadow pod is created", func() error {
			_, err := shadows.Create(
				t.Context(), translate.ShadowPod(localPod("last"), "demo-rome", s.To, nil), metav1.CreateOptions{},
			)
			return err
		}, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		<-seen
		for range step.news {
			select {
			case <-freed:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: no event", step.name)
			}
		}
	}
	if len(freed) > 0 || len(tidied) != 1 {
		t.Errorf("%d further calls of Freed, and %d of Tidied", len(freed), len(tidied))
	}
}

// While the watch is interrupted, it reports neither the creation nor the deletion of a shadow pod.
func TestUnobservedShadowPodIsReadLiveAfterItsGrace(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	clock := clocktesting.NewFakePassiveClock(metav1.Now().Time)
	s.Clock = clock
	pod := localPod("web")
	key := cache.MetaObjectToName(pod)
	if err := s.create(t.Context(), key, pod, s.remoteNamespace); err != nil {
		t.Fatal(err)
	}
	created := s.shadow(s.remoteNamespace, key)
	if created == nil || s.overdue(key, created) {
		t.Fatalf("after the creation: %v", created)
	}
	clock.SetTime(clock.Now().Add(unobservedGrace))
	if !s.overdue(key, created) {
		t.Error("the deleted shadow pod still counts as existing")
	}
	if err := s.checkUnobserved(t.Context(), key, created); err != nil || s.shadow(s.remoteNamespace, key) != created {
		t.Errorf("an existing shadow pod was dropped: %v", err)
	}
	if err := s.provider.FederationV1alpha1().
		ShadowPods(created.Namespace).
		Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.checkUnobserved(t.Context(), key, created); err != nil || s.shadow(s.remoteNamespace, key) != nil {
		t.Errorf("a deleted shadow pod was not created again: %v", err)
	}
}
