// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

// crowd returns the error of a provider that has reached its limit of finished shadow pods.
func crowd() error {
	answer := apierrors.NewForbidden(shadowPods, "", errors.New("consumer rome keeps too many finished pods"))
	answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseTooManyFinished}}
	return answer
}

// keeping is a controller whose provider has finished shadow pods.
type keeping struct {
	*sender
	pods cache.Indexer
}

func newKeeping(t *testing.T, answer func(verb string) error) *keeping {
	t.Helper()
	k := &keeping{sender: newSender(t, answer), pods: kittest.Indexer()}
	k.Lister = corev1listers.NewPodLister(k.pods)
	k.Namespaces = fixed{
		"demo": {Offloaded: true, Ready: true, Namespace: k.sender.remoteNamespace}, "next": {Offloaded: true},
	}
	return k
}

// keep adds a local pod that ended some minutes ago, and its shadow pod.
func (k *keeping) keep(t *testing.T, name string, minutes int, local, remotePod corev1.PodPhase, uid types.UID) {
	t.Helper()
	pod := localPod(name)
	pod.UID, pod.Status.Phase = types.UID("pod-"+name), local
	end := metav1.NewTime(k.Clock.Now().Add(-time.Duration(minutes) * time.Minute))
	pod.CreationTimestamp = metav1.NewTime(end.Add(-time.Hour))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: end}}},
	}
	shadow := &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "demo-rome",
			Name:        name,
			UID:         types.UID("shadow-" + name),
			Annotations: map[string]string{v1alpha1.AnnotationOriginUID: string(uid)},
		},
		Status: v1alpha1.ShadowPodStatus{Phase: remotePod},
	}
	if err := errors.Join(k.pods.Add(pod), k.sender.remoteNamespace.Shadows.GetStore().Add(shadow)); err != nil {
		t.Fatal(err)
	}
}

// deletions returns the names of the shadow pods that were deleted since the last call.
func (k *keeping) deletions() []string {
	var names []string
	for _, action := range k.provider.Actions() {
		if deleted, ok := action.(clienttesting.DeleteAction); ok {
			names = append(names, deleted.GetName())
		}
	}
	k.provider.ClearActions()
	return names
}

func TestFinishedShadowPodsAreDeletedIfTheProviderKeepsTooMany(t *testing.T) {
	answer := crowd()
	k := newKeeping(t, func(verb string) error {
		if verb == "create" {
			return answer
		}
		return nil
	})
	const many = tidiedAtOnce + 20
	var oldest []string
	for i := range many {
		name := fmt.Sprintf("done-%03d", i)
		k.keep(t, name, many-i, corev1.PodSucceeded, corev1.PodSucceeded, types.UID("pod-"+name))
		oldest = append(oldest, name)
	}
	k.keep(t, "not-reported", 9999, corev1.PodRunning, corev1.PodFailed, "pod-not-reported")
	k.keep(t, "runs", 9999, corev1.PodRunning, "", "pod-runs")
	k.keep(t, "failed-locally", 9999, corev1.PodFailed, "", "pod-failed-locally")
	k.keep(t, "anothers", 9999, corev1.PodFailed, corev1.PodFailed, "pod-of-before")

	pod := localPod("new")
	key := cache.MetaObjectToName(pod)
	send := func() error { return k.create(t.Context(), key, pod, k.sender.remoteNamespace) }
	if err := send(); err != nil {
		t.Fatalf("a pod that waits until finished shadow pods are deleted: %v", err)
	}
	if diff := cmp.Diff(oldest[:tidiedAtOnce], k.deletions()); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	// The requested deletions are pending.
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if more := k.deletions(); len(more) > 0 {
		t.Errorf("further shadow pods are deleted while deletions are pending: %v", more)
	}
	if reported, tried := len(k.events.Events), k.queue.Len(); reported > 0 || tried > 0 {
		t.Errorf("%d events and %d attempts while deletions are pending", reported, tried)
	}
	store := k.sender.remoteNamespace.Shadows.GetStore()
	for _, obj := range store.List() {
		if shadow := obj.(*v1alpha1.ShadowPod); slices.Contains(oldest[:tidiedAtOnce-1], shadow.Name) {
			if err := store.Delete(shadow); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.Events().Tidied()
	if k.queue.Len() != 1 {
		t.Errorf("%d pods are retried after some were deleted", k.queue.Len())
	}

	// A shadow pod that a finalizer keeps does not prevent further deletions after tidyTimeout.
	last := k.sender.remoteNamespace.Shadow(oldest[tidiedAtOnce-1]).DeepCopy()
	last.DeletionTimestamp = &metav1.Time{Time: k.Clock.Now()}
	if err := store.Update(last); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != nil || len(k.deletions()) > 0 {
		t.Errorf("further shadow pods are deleted before tidyTimeout, or %v", err)
	}
	k.Clock.(*clocktesting.FakePassiveClock).SetTime(k.Clock.Now().Add(tidyTimeout))
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oldest[tidiedAtOnce:], k.deletions()); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	for _, name := range oldest[tidiedAtOnce:] {
		if err := store.Delete(k.sender.remoteNamespace.Shadow(name)); err != nil {
			t.Fatal(err)
		}
	}

	// No finished shadow pod remains that can be deleted, so the refusal is reported.
	k.Clock.(*clocktesting.FakePassiveClock).SetTime(k.Clock.Now().Add(tidyTimeout))
	if err := send(); !apierrors.HasStatusCause(err, v1alpha1.CauseTooManyFinished) {
		t.Errorf("got %v", err)
	}
	if more := k.deletions(); len(more) > 0 {
		t.Errorf("deleted: %v", more)
	}
	select {
	case reported := <-k.events.Events:
		if !strings.Contains(reported, v1alpha1.ReasonProviderRefused) {
			t.Errorf("event %q", reported)
		}
	default:
		t.Error("the status does not report the refusal")
	}
	answer = nil
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if left := k.states.someBlocked(tooManyFinished, many); len(left) > 0 {
		t.Errorf("accepted pods still wait: %v", left)
	}
}

func TestFinishedPodDoesNotWaitForQuota(t *testing.T) {
	k := newKeeping(t, func(string) error { return full() })
	pod := localPod("web")
	key := cache.MetaObjectToName(pod)
	if err := k.create(
		t.Context(), key, pod, k.sender.remoteNamespace,
	); !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) {
		t.Fatal(err)
	}
	if left := k.states.someBlocked(overQuota, 1); len(left) != 1 {
		t.Fatalf("%v wait", left)
	}
	pod.Status.Phase = corev1.PodFailed
	if err := k.pods.Add(pod); err != nil {
		t.Fatal(err)
	}
	if err := k.reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if left := k.states.someBlocked(overQuota, 1); len(left) > 0 {
		t.Errorf("finished pods wait: %v", left)
	}
}
