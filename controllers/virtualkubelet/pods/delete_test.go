// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func TestPodIsRemovedWhoseShadowPodWasNeverObserved(t *testing.T) {
	const namespace, remoteNamespace = "web", "web-rome"
	federation := fake.NewSimpleClientset()
	// The watch has no events, as while it is interrupted.
	federation.PrependWatchReactor("shadowpods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "short", UID: "1", CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName: "liqo-milan", Containers: []corev1.Container{{Name: "main", Image: "web"}},
		},
	}
	local, provider := fakes.Followed(kubefake.NewClientset(pod)), fakes.Followed(kubefake.NewClientset())
	own, err := NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	to := translate.Destination{OriginID: "rome", DestinationID: "milan", NodeName: "liqo-milan"}
	remote := remotens.Clients{Core: provider, Federation: federation}
	synced := make(chan string, 1)
	mapping := v1alpha1.NamespaceMapping{Name: namespace, RemoteName: remoteNamespace}
	watched, err := remotens.Start(t.Context(), remote, mapping, to, remotens.Events{
		Shadow: func(cache.ObjectName) {},
		Pod:    func(cache.ObjectName, *translate.RemotePod) {},
		Synced: func(name string) { synced <- name },
	})
	if err != nil {
		t.Fatal(err)
	}
	<-synced
	c := &Controller{Config: Config{
		NodeName:  "liqo-milan",
		Provider:  "milan",
		To:        to,
		Local:     local,
		Remote:    remote,
		Lister:    corev1listers.NewPodLister(kittest.Indexer(pod)),
		Recorder:  record.NewFakeRecorder(10),
		Metrics:   own,
		Clock:     clock.RealClock{},
		Patch:     func() *v1alpha1.OffloadingPatch { return nil },
		Reachable: func() bool { return true },
	}}
	c.queue = c.newQueue()
	defer c.queue.ShutDown()
	key := cache.MetaObjectToName(pod)
	if err := c.create(t.Context(), key, pod, watched); err != nil {
		t.Fatal(err)
	}

	going := pod.DeepCopy()
	now := metav1.NewTime(time.Now())
	going.DeletionTimestamp = &now
	here := remotens.State{Offloaded: true, Ready: true, Namespace: watched}
	for pass, exists := range []bool{true, true, false, false} {
		if err := c.remove(t.Context(), key, going, here); err != nil {
			t.Fatal(err)
		}
		_, err := local.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); gone == exists {
			t.Errorf("after pass %d: gone is %t", pass+1, gone)
		}
	}
	if c.states.read(key).shadow.created != nil {
		t.Error("the deleted shadow pod still counts as existing")
	}
	deletions := 0
	for _, action := range local.Actions() {
		if action.Matches("delete", "pods") {
			deletions++
		}
	}
	if deletions != 1 {
		t.Errorf("the pod was deleted %d times while it was still cached", deletions)
	}
}

// cutOff returns a controller and its local pod web, which is being deleted. The provider has a shadow pod and a remote
// pod for it.
func cutOff(t *testing.T) (s *sender, going *corev1.Pod) {
	t.Helper()
	s = newSender(t, func(string) error { return nil })
	going = localPod("web")
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, ptr.To[int64](30)
	s.Local = kubefake.NewSimpleClientset(going)
	s.Lister = corev1listers.NewPodLister(kittest.Indexer(going))
	shadow := translate.ShadowPod(going, "demo-rome", s.To, nil)
	shadow.UID = "shadow"
	// The fake client deletes the shadow pod without waiting, so the remote pod exists longer.
	remotePod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   shadow.Namespace,
			Name:        shadow.Name,
			Labels:      shadow.Labels,
			Annotations: shadow.Annotations,
		},
	}
	s.Remote = remotens.Clients{
		Core:       fakes.Followed(kubefake.NewClientset(remotePod)),
		Federation: fakes.Followed(fake.NewSimpleClientset(shadow)),
	}
	synced := make(chan string, 1)
	watched, err := remotens.Start(
		t.Context(),
		s.Remote,
		v1alpha1.NamespaceMapping{Name: "demo", RemoteName: "demo-rome"},
		s.To,
		remotens.Events{
			Shadow: func(cache.ObjectName) {},
			Pod:    func(cache.ObjectName, *translate.RemotePod) {},
			Freed:  func() {},
			Tidied: func() {},
			Synced: func(name string) { synced <- name },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	<-synced
	s.remoteNamespace = watched
	return s, going
}

// shadowsDeleted returns the grace periods, in seconds, of the requested deletions of shadow pods; -1 means the pod's
// own.
func (s *sender) shadowsDeleted() (graces []int64) {
	for _, action := range s.Remote.Federation.(*fake.Clientset).Actions() {
		if deletion, ok := action.(clienttesting.DeleteActionImpl); ok && action.Matches("delete", "shadowpods") {
			graces = append(graces, ptr.Deref(deletion.DeleteOptions.GracePeriodSeconds, -1))
		}
	}
	return graces
}

// timesSucceeded returns the number of status patches with phase Succeeded.
func (s *sender) timesSucceeded() (count int) {
	for _, action := range s.Local.(*kubefake.Clientset).Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok &&
			strings.Contains(string(patch.GetPatch()), `"phase":"Succeeded"`) {
			count++
		}
	}
	return count
}

// succeeded sets the phase of the shadow pod of web to Succeeded.
func (s *sender) succeeded(t *testing.T, change ...func(*v1alpha1.ShadowPod)) {
	t.Helper()
	ended := s.remoteNamespace.Shadow("web").DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	ended.Status.Pod = &corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
	}}}
	for _, c := range change {
		c(ended)
	}
	if err := s.remoteNamespace.Shadows.GetStore().Add(ended); err != nil {
		t.Fatal(err)
	}
}

// A Job would count a pod without a final status as failed and replace it.
func TestEndOfAPodIsWrittenBeforeItIsRemoved(t *testing.T) {
	for _, test := range []struct {
		name     string
		refusal  error
		phase    corev1.PodPhase
		reported int
		removed  []int64
	}{
		{"final status not written", nil, corev1.PodRunning, 1, nil},
		{"final status written already", nil, corev1.PodSucceeded, 0, []int64{0}},
		{
			"refused status", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil),
			corev1.PodRunning, 1, []int64{0},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, going := cutOff(t)
			s.Reachable = func() bool { return true }
			going.Finalizers, going.Status.Phase = []string{"batch.kubernetes.io/job-tracking"}, test.phase
			local := s.Local.(*kubefake.Clientset)
			fakes.React(local, "patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.refusal != nil, nil, test.refusal
			})
			s.succeeded(t)
			if err := s.remove(
				t.Context(),
				cache.MetaObjectToName(going),
				going,
				remotens.State{Offloaded: true, Ready: true, Namespace: s.remoteNamespace},
			); err != nil {
				t.Fatal(err)
			}
			if reported := s.timesSucceeded(); reported != test.reported {
				t.Errorf("%d status writes, want %d", reported, test.reported)
			}
			if diff := cmp.Diff(test.removed, s.shadowsDeleted()); diff != "" {
				t.Errorf("deletions of the shadow pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndOfAPodDeletedOnTheProviderIsWritten(t *testing.T) {
	deletes := func(shadow *v1alpha1.ShadowPod) { shadow.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	for _, test := range []struct {
		name     string
		desired  bool
		phase    corev1.PodPhase
		reported int
		removed  []int64
	}{
		{"before the pod is created again", true, corev1.PodRunning, 1, nil},
		{"obsolete namespace", false, corev1.PodRunning, 1, nil},
		{"final status written", true, corev1.PodSucceeded, 0, []int64{0}},
		{"final status written, unreachable namespace", false, corev1.PodSucceeded, 0, []int64{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, pod := cutOff(t)
			s.Reachable = func() bool { return true }
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Phase = nil, nil, test.phase
			s.Namespaces = fixed{
				pod.Namespace: {Offloaded: test.desired, Ready: test.desired, Namespace: s.remoteNamespace},
			}
			s.succeeded(t, deletes)
			if err := s.reconcile(t.Context(), cache.MetaObjectToName(pod)); err != nil {
				t.Fatal(err)
			}
			if reported := s.timesSucceeded(); reported != test.reported {
				t.Errorf("%d status writes, want %d", reported, test.reported)
			}
			if diff := cmp.Diff(test.removed, s.shadowsDeleted()); diff != "" {
				t.Errorf("deletions of the shadow pod (-want +got):\n%s", diff)
			}
		})
	}
}

// Without a final phase, the pod would be created again when its shadow pod is deleted.
func TestPodFailsIfItsEndIsRefused(t *testing.T) {
	s, pod := cutOff(t)
	s.Reachable = func() bool { return true }
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil
	s.Namespaces = fixed{pod.Namespace: {Offloaded: true, Ready: true, Namespace: s.remoteNamespace}}
	s.succeeded(t, func(shadow *v1alpha1.ShadowPod) { shadow.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	var reported []string
	fakes.React(
		s.Local.(*kubefake.Clientset),
		"patch",
		"pods",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			reported = append(reported, string(action.(clienttesting.PatchAction).GetPatch()))
			if len(reported) == 1 {
				return true, nil, apierrors.NewInvalid(
					corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", nil,
				)
			}
			return false, nil, nil
		},
	)
	if err := s.reconcile(t.Context(), cache.MetaObjectToName(pod)); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if len(reported) != 2 || !strings.Contains(reported[1], `"phase":"Failed"`) {
		t.Errorf("the reported phase is %q", reported)
	}
	if removed := s.shadowsDeleted(); removed != nil {
		t.Errorf("the shadow pod was deleted before the final status, with %v", removed)
	}
}

func TestForcedDeletionKeepsOneSecondOfGrace(t *testing.T) {
	s, going := cutOff(t)
	s.Reachable = func() bool { return true }
	going.Finalizers, going.DeletionGracePeriodSeconds = []string{"batch.kubernetes.io/job-tracking"}, new(int64)
	if err := s.remove(
		t.Context(),
		cache.MetaObjectToName(going),
		going,
		remotens.State{Offloaded: true, Ready: true, Namespace: s.remoteNamespace},
	); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{1}, s.shadowsDeleted()); diff != "" {
		t.Errorf("deletions of the shadow pod (-want +got):\n%s", diff)
	}
}

func TestPodStaysWhileItsRemoteNamespaceIsInUse(t *testing.T) {
	unsynced := &remotens.Namespace{Local: "demo", Remote: "demo-rome",
		Pods:    cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{}),
		Shadows: cache.NewSharedIndexInformer(nil, &v1alpha1.ShadowPod{}, 0, cache.Indexers{})}
	for _, test := range []struct {
		name                                      string
		desired, former, synced, reachable, stays bool
	}{
		{"unreachable provider, offloaded namespace", true, false, true, false, true},
		{"unreachable provider, unoffloaded namespace", false, false, true, false, false},
		{"unreachable provider, superseded remote namespace", true, true, true, false, false},
		{"unreachable provider, unoffloaded namespace, caches not filled", false, false, false, false, false},
		{"reachable provider, unoffloaded namespace, caches not filled", false, false, false, true, true},
		{"reachable provider, unoffloaded namespace", false, false, true, true, true},
		{"reachable provider, superseded remote namespace", true, true, true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, going := cutOff(t)
			s.Reachable = func() bool { return test.reachable }
			now := remotens.State{
				Offloaded: test.desired,
				Former:    test.former,
				Ready:     test.desired && !test.former,
				Namespace: s.remoteNamespace,
			}
			if !test.synced {
				now.Namespace = unsynced
			}
			for range 2 {
				if err := s.remove(t.Context(), cache.MetaObjectToName(going), going, now); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.Local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
			if apierrors.IsNotFound(err) == test.stays {
				t.Errorf("the pod: %v", err)
			}
			if requested, may := s.shadowsDeleted(), test.reachable && test.synced; len(requested) > 0 != may {
				t.Errorf("deletions of shadow pods with the grace periods %v", requested)
			}
			switch reported := len(s.events.Events); {
			case test.stays && reported > 0, !test.stays && reported != 1:
				t.Errorf("%d events", reported)
			case !test.stays:
				if event := <-s.events.Events; !strings.Contains(event, ReasonLeftBehind) ||
					!strings.Contains(event, "demo-rome") {
					t.Errorf("the event is %q", event)
				}
			}
		})
	}
}

func TestUnreachableProviderIsNoticedWhileItEndsAPod(t *testing.T) {
	s, going := cutOff(t)
	ticking := clocktesting.NewFakeClock(time.Now())
	s.queue.TypedRateLimitingInterface = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Clock: ticking},
	)
	defer s.queue.ShutDown()
	answers := true
	s.Reachable = func() bool { return answers }
	s.Namespaces = fixed{"demo": {Namespace: s.remoteNamespace}}
	if err := s.reconcile(t.Context(), cache.MetaObjectToName(going)); err != nil {
		t.Fatal(err)
	}
	answers = false
	ticking.Step(leavingCheck)
	s.queue.Next(t.Context())
	if _, err := s.Local.CoreV1().Pods("demo").Get(
		t.Context(), "web", metav1.GetOptions{},
	); !apierrors.IsNotFound(err) {
		t.Errorf("the pod: %v", err)
	}
}

func TestLeftPodsAreDeletedWhenTheProviderIsBack(t *testing.T) {
	for name, again := range map[string]bool{
		"unoffloaded": false, "replaced by another pod": true,
	} {
		t.Run(name, func(t *testing.T) {
			s, going := cutOff(t)
			key := cache.MetaObjectToName(going)
			answers := false
			s.Reachable = func() bool { return answers }
			gone := remotens.State{Namespace: s.remoteNamespace}
			if err := s.remove(t.Context(), key, going, gone); err != nil {
				t.Fatal(err)
			}
			s.Lister = corev1listers.NewPodLister(kittest.Indexer())
			if again {
				next := localPod("web")
				next.UID = "next"
				s.Lister = corev1listers.NewPodLister(kittest.Indexer(next))
				gone.Offloaded, gone.Ready = true, true
			}
			s.Namespaces = fixed{"demo": gone}
			answers = true
			s.EnqueueAll()
			if s.queue.Len() != 1 {
				t.Fatalf("%d pods are enqueued", s.queue.Len())
			}
			s.queue.Next(t.Context())
			if requested := s.shadowsDeleted(); len(requested) != 1 {
				t.Errorf("deletions of shadow pods with the grace periods %v", requested)
			}
			for _, action := range s.Remote.Federation.(*fake.Clientset).Actions() {
				if action.Matches("create", "shadowpods") {
					t.Error("the new shadow pod is created before the earlier one is deleted")
				}
			}
		})
	}
}
