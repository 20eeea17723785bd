// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestPodIsDeletedWithTheGracePeriodOfItsShadowPod(t *testing.T) {
	for _, test := range []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		pod    func(*corev1.Pod)
		want   int64
	}{
		{name: "the grace period of the deletion", shadow: shadowPod(deletedWithin(300)), pod: bound, want: 300},
		{name: "a shorter grace period of a second deletion", shadow: shadowPod(deletedWithin(5)), pod: stopping, want: 5},
		{name: "the grace period of the pod after a deletion by force", shadow: shadowPod(deletedWithin(0)), pod: bound, want: -1},
		{name: "one second for a grace period of zero", shadow: shadowPod(deletedWithin(0), immediate), pod: bound, want: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.shadow, podOf(t, shadowPod(), test.pod))
			var got []int64
			w.answer(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, all ...client.DeleteOption) error {
					options := (&client.DeleteOptions{}).ApplyOptions(all)
					got = append(got, ptr.Deref(options.GracePeriodSeconds, -1))
					return nil
				}})
			w.pass(t)
			if diff := cmp.Diff([]int64{test.want}, got); diff != "" {
				t.Errorf("grace periods of the deletions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodFollowsItsShadowPod(t *testing.T) {
	for _, test := range []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		pod    func(*testing.T) *corev1.Pod
		wrote  []string
		// again is the delay of the next pass.
		again time.Duration
	}{
		{name: "a pod is created", shadow: shadowPod(), wrote: []string{"create Pod web"}},
		{
			name: "a running pod is not written", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
		},
		{
			name: "the end of a finished pod is recorded", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), in(corev1.PodFailed)) },
			wrote: []string{"patch status ShadowPod web"},
		},
		{
			name: "the end of a pod that another client deletes is recorded", shadow: shadowPod(never),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), in(corev1.PodSucceeded), stopping)
			},
			wrote: []string{"patch status ShadowPod web"},
		},
		{name: "a finished pod does not run again", shadow: shadowPod(never, hasEnded)},
		{
			name: "a finished pod stays, for its log", shadow: shadowPod(never, hasEnded),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), in(corev1.PodSucceeded)) },
		},
		{
			name: "a finished pod is released once its end is recorded", shadow: shadowPod(never, hasEnded),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), in(corev1.PodSucceeded), stopping)
			},
			wrote: []string{"patch Pod web"},
		},
		{
			name: "an evicted pod that should run for ever is deleted", shadow: shadowPod(),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), in(corev1.PodFailed)) },
			wrote: []string{"delete Pod web"},
		},
		{
			name: "the end of a pod that another client deletes is awaited", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{
			name: "the end of a pod that was deleted by force is awaited", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(abandoned-time.Second)) },
			again: time.Second,
		},
		{
			name: "a pod that was deleted by force long ago is released", shadow: shadowPod(never),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(abandoned)) },
			wrote: []string{"patch Pod web"},
		},
		{
			name: "a deleted shadow pod deletes its pod", shadow: shadowPod(deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
			wrote: []string{"delete Pod web"},
		},
		{
			name: "a second deletion with a shorter grace period deletes the pod again", shadow: shadowPod(deletedWithin(5)),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
			wrote: []string{"delete Pod web"},
		},
		{
			name: "a deletion by force does not delete the pod again", shadow: shadowPod(deletedWithin(0)),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{
			name: "a pod that may just have been bound is not released", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never)) },
			wrote: []string{"delete Pod web"},
		},
		{
			name: "a bound pod is not released", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound) },
			wrote: []string{"delete Pod web"},
		},
		{
			name: "the end of the pod of a deleted shadow pod is awaited", shadow: shadowPod(never, deleted),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound, stopping) },
		},
		{
			name: "the end of the pod of a deleted shadow pod is recorded", shadow: shadowPod(never, deleted),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), bound, stopping, in(corev1.PodSucceeded))
			},
			wrote: []string{"patch status ShadowPod web"},
		},
		{
			name: "the pod is released after its end is recorded", shadow: shadowPod(never, deleted, hasEnded),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), bound, stopping, in(corev1.PodSucceeded))
			},
			wrote: []string{"patch Pod web"},
		},
		{
			name: "a pod without a node is released", shadow: shadowPod(never, deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), forced(0)) },
			wrote: []string{"patch Pod web"},
		},
		{
			name:   "the end of the pod is awaited after a deletion of the shadow pod by force",
			shadow: shadowPod(never, deletedWithin(0)),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(never), bound, forced(abandoned-time.Second))
			},
			again: time.Second,
		},
		{
			name: "the pod is released if it does not end after a deletion by force", shadow: shadowPod(never, deletedWithin(0)),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), bound, forced(abandoned)) },
			wrote: []string{"patch Pod web"},
		},
		{name: "an end is kept for the consumer", shadow: shadowPod(never, hasEnded, unreadFor(unread-time.Second)), again: time.Second},
		{name: "an end shortens the grace period of the shadow pod", shadow: shadowPod(never, hasEnded, deleted), wrote: []string{"delete ShadowPod web"}, again: unread},
		{name: "an end that is not read is released after a time", shadow: shadowPod(never, hasEnded, unreadFor(unread)), wrote: []string{"patch ShadowPod web"}},
		{
			name: "an end that was read is released", shadow: shadowPod(never, hasEnded, deletedWithin(0)),
			wrote: []string{"patch ShadowPod web"},
		},
		{
			name: "a deleted shadow pod waits for its pod", shadow: shadowPod(deleted),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), stopping) },
		},
		{name: "a deleted shadow pod without a pod is released", shadow: shadowPod(deleted), wrote: []string{"patch ShadowPod web"}},
		{
			name: "other finalizers are left alone", shadow: shadowPod(deleted, held("example.com/other")),
		},
		{
			name: "a shadow pod without finalizers is deleted again", shadow: shadowPod(deleted, held()),
			wrote: []string{"delete ShadowPod web"},
		},
		{
			name: "the deletion of the pod of an earlier shadow pod is awaited", shadow: shadowPod(),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofEarlier) },
		},
		{
			name: "a pod of another client is a conflict", shadow: shadowPod(),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofOther) },
			wrote: []string{"patch status ShadowPod web"},
			again: minBackoff,
		},
		{
			name: "a deleted shadow pod does not wait for the pod of another client", shadow: shadowPod(deleted),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(), ofOther) },
			wrote: []string{"patch ShadowPod web"},
		},
		{
			name:  "the deleted pod of a shadow pod that does not exist is released",
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(never), stopping) },
			wrote: []string{"patch Pod web"},
		},
		{
			name: "changes are applied to the pod",
			shadow: shadowPod(func(shadow *v1alpha1.ShadowPod) {
				shadow.Spec.Pod.Containers[0].Image = "two"
			}),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod()) },
			wrote: []string{"update Pod web"},
		},
		{
			name: "a pod is resized", shadow: shadowPod(requesting("2")),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1"))) },
			wrote: []string{"update resize Pod web", "update Pod web"},
		},
		{
			name: "once", shadow: shadowPod(requesting("2")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("2"))) },
		},
		{
			name: "resources that the provider set itself stay", shadow: shadowPod(requesting("1")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1")), with("2")) },
		},
		{
			name: "a pod of an older version is not resized without a change", shadow: shadowPod(requesting("1")),
			pod: func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1")), with("2"), older) },
		},
		{
			name: "a pod of an older version is resized after a change", shadow: shadowPod(requesting("2"), changedOnce),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1")), older) },
			wrote: []string{"update resize Pod web", "update Pod web"},
		},
		{
			name: "a pod with its former resources has released no resources", shadow: shadowPod(requesting("1"), hadMore),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("2"))) },
			wrote: []string{"update resize Pod web", "update Pod web"},
		},
		{
			name:   "a pod that its kubelet has not resized has released no resources",
			shadow: shadowPod(requesting("1"), hadMore),
			pod:    func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1")), allocated("2")) },
		},
		{
			name: "a pod that its kubelet has resized has released resources", shadow: shadowPod(requesting("1"), hadMore),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(requesting("1")), allocated("1")) },
			wrote: []string{"patch status ShadowPod web"},
		},
		{name: "a new pod has no ephemeral containers", shadow: shadowPod(debugged), wrote: []string{"create Pod web"}},
		{
			name: "an ephemeral container is added to the pod", shadow: shadowPod(debugged),
			pod:   func(t *testing.T) *corev1.Pod { return podOf(t, shadowPod(debugged)) },
			wrote: []string{"update ephemeralcontainers Pod web", "update Pod web"},
		},
		{
			name: "once, too", shadow: shadowPod(debugged),
			pod: func(t *testing.T) *corev1.Pod {
				return podOf(t, shadowPod(debugged), func(pod *corev1.Pod) {
					pod.Spec.EphemeralContainers = missingEphemeralContainers(pod, shadowPod(debugged))
					if err := update(pod, shadowPod(debugged), remoteNamespace(), true); err != nil {
						t.Fatal(err)
					}
				})
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pod *corev1.Pod
			if test.pod != nil {
				pod = test.pod(t)
			}
			w := newWorld(t, test.shadow, pod)
			if again := w.pass(t); again != test.again {
				t.Errorf("requeued after %s, want %s", again, test.again)
			}
			if diff := cmp.Diff(test.wrote, w.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesInTheLifeOfAPodAreSelected(t *testing.T) {
	alive := func(*corev1.Pod) {}
	for _, test := range []struct {
		name           string
		before, change func(*corev1.Pod)
		want           bool
	}{
		{"nothing", alive, alive, false},
		{"it is ready", alive, func(pod *corev1.Pod) { pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		{"it ended", alive, in(corev1.PodFailed), true},
		{"it is being deleted", alive, stopping, true},
		{"its grace period is shorter", stopping, func(pod *corev1.Pod) { pod.DeletionGracePeriodSeconds = ptr.To[int64](5) }, true},
		{"it was replaced", alive, func(pod *corev1.Pod) { pod.UID = "another" }, true},
		{"a finalizer was removed", alive, func(pod *corev1.Pod) { pod.Finalizers = nil }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := podOf(t, shadowPod(never), test.before)
			after := before.DeepCopy()
			test.change(after)
			if got := kit.Changed(lifeChanged).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("selected: %t", got)
			}
		})
	}
}

// tooLarge refuses statuses with mounted volumes, or all, as the API server does with large ones.
func (w *world) tooLarge(always bool) {
	w.answer(interceptor.Funcs{SubResourcePatch: func(
		ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		if data, err := p.Data(o); err != nil || always || strings.Contains(string(data), "volumeMounts") {
			return apierrors.NewInvalid(shadowKind.GroupKind(), o.GetName(), nil)
		}
		return c.SubResource(sub).Patch(ctx, o, p, options...)
	}})
}

func TestEndThatIsRefusedIsRecordedInShortAndReleasesThePod(t *testing.T) {
	ended := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady}, {Type: corev1.DisruptionTarget, Reason: "EvictionByEvictionAPI"},
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", VolumeMounts: []corev1.VolumeMountStatus{{Name: "data"}},
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
		}}
	}
	t.Run("the important part is recorded", func(t *testing.T) {
		w := newWorld(t, shadowPod(never, deleted), podOf(t, shadowPod(never), bound, stopping, ended))
		w.tooLarge(false)
		w.pass(t)
		want := v1alpha1.ShadowPodStatus{Phase: corev1.PodFailed, Pod: &corev1.PodStatus{
			Phase:      corev1.PodFailed,
			Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Reason: "EvictionByEvictionAPI"}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3,
					Reason: "Error"}},
			}},
		}}
		if diff := cmp.Diff(want, w.shadow().Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
	t.Run("if that is refused, too, the pod is released", func(t *testing.T) {
		w := newWorld(t, shadowPod(never, deleted), podOf(t, shadowPod(never), bound, stopping, ended))
		w.tooLarge(true)
		w.pass(t)
		if diff := cmp.Diff([]string{"patch Pod web"}, w.WritesSince(0)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

func TestPodThatIsNotObservedYetIsNotCreatedTwice(t *testing.T) {
	w := newWorld(t, shadowPod(), nil)
	w.late = true
	for range 3 {
		w.pass(t)
	}
	if diff := cmp.Diff([]string{"create Pod web"}, w.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	// It is observed, and deleted.
	pod := w.pod()
	if diff := cmp.Diff([]reconcile.Request{{NamespacedName: web}}, w.r.observePod(t.Context(), pod)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if err := w.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if diff := cmp.Diff([]string{"create Pod web", "create Pod web"}, w.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestEvictedPodIsCreatedAgainWithGrowingDelays(t *testing.T) {
	var waited []time.Duration
	w := newWorld(t, shadowPod(), nil)
	for range 3 {
		if err := w.Create(t.Context(), podOf(t, shadowPod(), in(corev1.PodFailed))); err != nil {
			t.Fatal(err)
		}
		w.pass(t)
		written := len(w.Writes)
		waited = append(waited, w.pass(t))
		if writes := w.WritesSince(written); writes != nil {
			t.Errorf("created again at once: %v", writes)
		}
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, waited); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestRefusalIsReportedAndFailureIsRetried(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		name    string
		err     error
		refused bool
		fails   bool
	}{
		{"a quota", apierrors.NewForbidden(pods, "web", errors.New("exceeded quota")), true, false},
		{"a number of pods", apierrors.NewForbidden(pods, "web", errors.New(
			"exceeded quota: federation, requested: count/pods=1, used: count/pods=2, limited: count/pods=2")), true, false},
		{"an invalid pod", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), true, false},
		{"an overloaded server", apierrors.NewTooManyRequests("later", 1), false, true},
		{"a broken server", apierrors.NewInternalError(errors.New("oops")), false, true},
		{"an expired identity", apierrors.NewUnauthorized("no"), false, true},
		{"no answer", errors.New("connection refused"), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shadowPod(), nil)
			w.Fault = func(write kittest.Write, _ bool) error {
				if write.Kind == "Pod" {
					return test.err
				}
				return nil
			}
			result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
			if (err != nil) != test.fails {
				t.Errorf("got error %v", err)
			}
			condition := meta.FindStatusCondition(w.shadow().Status.Conditions, v1alpha1.ConditionPodCreated)
			if reported := condition != nil && condition.Status == metav1.ConditionFalse &&
				condition.Message != ""; reported != test.refused {
				t.Errorf("condition %+v", condition)
			}
			if test.name == "a number of pods" && !strings.Contains(condition.Message, "spec.incomingPolicy.objects") {
				t.Errorf("message %q names no policy", condition.Message)
			}
			if test.refused && result.RequeueAfter != minBackoff {
				t.Errorf("requeued after %s", result.RequeueAfter)
			}
			if events := w.Recorded(); (len(events) == 1) != test.refused {
				t.Errorf("events %q", events)
			}
		})
	}
}
