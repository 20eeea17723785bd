// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestEphemeralContainerThatIsRefusedDelaysNoOtherChange(t *testing.T) {
	changed := shadowPod(debugged, func(shadow *v1alpha1.ShadowPod) {
		containers := &shadow.Spec.Pod.EphemeralContainers
		(*containers)[0].Name = "root"
		*containers = append(*containers, shadowPod(debugged).Spec.Pod.EphemeralContainers...)
		shadow.Labels["app"] = "changed"
	})
	w := newWorld(t, changed, podOf(t, shadowPod()))
	w.answer(interceptor.Funcs{SubResourceUpdate: func(
		ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption,
	) error {
		if slices.Contains(ephemeralNames(o.(*corev1.Pod).Spec.EphemeralContainers), "root") {
			return apierrors.NewForbidden(corev1.Resource("pods"), "web",
				errors.New("violates PodSecurity \"restricted:latest\""))
		}
		return c.SubResource(sub).Update(ctx, o, options...)
	}})
	if again := w.pass(t); again != 0 {
		t.Fatalf("requeued after %s", again)
	}
	pod := w.pod()
	if diff := cmp.Diff([]string{"debug"}, ephemeralNames(pod.Spec.EphemeralContainers)); diff != "" {
		t.Errorf("ephemeral containers (-want +got):\n%s", diff)
	}
	if pod.Labels["app"] != "changed" {
		t.Errorf("labels %v", pod.Labels)
	}
	events := w.Recorded()
	if len(events) != 1 || !containsAll(events[0], "FailedUpdate", "root", "restricted") {
		t.Errorf("events %q", events)
	}
	written := len(w.Writes)
	w.pass(t)
	if writes := w.WritesSince(written); writes != nil {
		t.Errorf("the second pass writes %v", writes)
	}
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func TestResizeThatIsRefusedIsReportedAndRetriedAndDelaysNoOtherChange(t *testing.T) {
	larger := shadowPod(requesting("2"), changedOnce,
		func(shadow *v1alpha1.ShadowPod) { shadow.Labels["app"] = "changed" })
	w := newWorld(t, larger, podOf(t, shadowPod(requesting("1"))))
	full := true
	w.Fault = func(write kittest.Write, done bool) error {
		if write.Verb != "update resize" || done || !full {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("node is too small"))
	}
	if again := w.pass(t); again != minBackoff {
		t.Fatalf("requeued after %s", again)
	}
	if diff := cmp.Diff([]string{"update resize Pod web", "update Pod web", "patch status ShadowPod web"},
		w.WritesSince(0)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if events := w.Recorded(); len(events) != 1 || !containsAll(events[0], "FailedUpdate", "node is too small") {
		t.Errorf("events %q", events)
	}
	refused := meta.FindStatusCondition(w.shadow().Status.Conditions, v1alpha1.ConditionPodResized)
	if refused == nil || refused.Status != metav1.ConditionFalse || refused.Reason != v1alpha1.ReasonProviderRefused ||
		!strings.Contains(refused.Message, "node is too small") {
		t.Errorf("condition %+v", refused)
	}
	if pod := w.pod(); pod.Labels["app"] != "changed" || pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "1" {
		t.Errorf("labels %v and resources %v", pod.Labels, pod.Spec.Containers[0].Resources)
	}

	// Other events do not advance the retry, another size does.
	written := len(w.Writes)
	if again := w.pass(t); again != minBackoff || w.WritesSince(written) != nil {
		t.Errorf("requeued after %s, writes %v", again, w.WritesSince(written))
	}
	kittest.Change(w.Cluster, web.Namespace, web.Name, &v1alpha1.ShadowPod{},
		func(shadow *v1alpha1.ShadowPod) { shadow.Generation++ })
	full = false
	w.pass(t)
	if pod := w.pod(); pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "2" {
		t.Errorf("resources %v", pod.Spec.Containers[0].Resources)
	}
	w.pass(t)
	if shadow := w.shadow(); !meta.IsStatusConditionTrue(shadow.Status.Conditions, v1alpha1.ConditionPodResized) {
		t.Errorf("conditions %+v", shadow.Status.Conditions)
	}
}

// The cache may be behind the API server after a pod was resized.
func TestResourcesAreNotReleasedByAnOlderPodInTheCache(t *testing.T) {
	shrunk := shadowPod(requesting("1"), hadMore)
	for name, live := range map[string]*corev1.Pod{
		"enlarged in the meantime":     podOf(t, shadowPod(requesting("2"))),
		"not resized by its kubelet":   podOf(t, shadowPod(requesting("1")), allocated("2")),
		"another one of the same name": podOf(t, shadowPod(requesting("1")), func(pod *corev1.Pod) { pod.UID = "another" }),
		"deleted":                      nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shrunk, podOf(t, shadowPod(requesting("1"))))
			w.r.Live = newWorld(t, nil, live).r.Live
			w.pass(t)
			if writes := w.WritesSince(0); writes != nil {
				t.Errorf("writes %v", writes)
			}
		})
	}
}
