// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestPodsAreReflected(t *testing.T) {
	o := newOffload(t)
	o.start(t)
	t.Run("later changes", o.testChanged)
	t.Run("ephemeral containers, to which policies apply", o.testDebugged)
	t.Run("warnings of the provider", o.testWarned)
	t.Run("the offloading patch and its exclusions", o.testPatched)
	t.Run("a running pod fails when its namespace is unoffloaded", o.testAborted)
}

// awaitShadow waits until a shadow pod meets a condition.
func (o *offload) awaitShadow(t *testing.T, name, what string,
	is func(*v1alpha1.ShadowPod) bool) (shadow *v1alpha1.ShadowPod) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the shadow pod is %+v", shadow)
		}
	}()
	until(t, what, func(ctx context.Context) (bool, error) {
		var err error
		shadow, err = o.federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(shadow), ignoreNotFound(err)
	})
	return shadow
}

// change patches a local pod or its subresource.
func (o *offload) change(t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	_, err := o.Kube.CoreV1().Pods(o.local).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
}

func (o *offload) testChanged(t *testing.T) {
	o.bind(t, o.local, "changed", nil)
	before := o.shadow(t, "changed")
	pod, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "changed", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Labels, pod.Annotations = map[string]string{"tier": "front"}, map[string]string{"note": "new"}
	pod.Spec.Containers[0].Image = "app:2"
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists})
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	if _, err := o.Kube.CoreV1().Pods(o.local).Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	after := o.awaitShadow(t, "changed", "the changes are reflected", func(shadow *v1alpha1.ShadowPod) bool {
		spec := &shadow.Spec.Pod
		return shadow.Labels["tier"] == "front" && shadow.Annotations["note"] == "new" &&
			spec.Containers[0].Image == "app:2" &&
			ptr.Deref(spec.ActiveDeadlineSeconds, 0) == 3600 &&
			slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "gpu" })
	})
	if after.Spec.OfferedNode != offeredNode {
		t.Errorf("it is for the offered node %q", after.Spec.OfferedNode)
	}
	if _, kept := after.Labels["app"]; kept || after.UID != before.UID {
		t.Errorf("labels %v, UID %s, want %s", after.Labels, after.UID, before.UID)
	}
}

func (o *offload) testDebugged(t *testing.T) {
	o.bind(t, o.local, "debugged", nil)
	o.runs(t, o.make(t, "debugged"), 0)
	o.awaitPod(t, o.local, "debugged", "the pod is ready", isReady)

	o.change(t, "debugged",
		`{"spec":{"ephemeralContainers":[{"name":"debug","image":"debug:1","targetContainerName":"app"}]}}`,
		"ephemeralcontainers")
	o.awaitShadow(t, "debugged", "the container is reflected", func(shadow *v1alpha1.ShadowPod) bool {
		all := shadow.Spec.Pod.EphemeralContainers
		return len(all) == 1 && all[0].Name == "debug" && all[0].TargetContainerName == "app"
	})
	o.change(t, "debugged",
		`{"spec":{"ephemeralContainers":[{"name":"root","image":"debug:1",`+
			`"securityContext":{"capabilities":{"add":["SYS_PTRACE"]}}}]}}`, "ephemeralcontainers")
	pod := o.awaitPod(t, o.local, "debugged", "the privileged one is refused", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == "root" && s.State.Waiting != nil && s.State.Waiting.Reason == "ProviderRefused" &&
				strings.Contains(s.State.Waiting.Message, "SYS_PTRACE")
		})
	})
	if !isReady(pod) {
		t.Error("the pod is not ready any more")
	}
	o.change(t, "debugged", `{"metadata":{"labels":{"tier":"front"}}}`)
	shadow := o.awaitShadow(t, "debugged", "other changes are reflected",
		func(shadow *v1alpha1.ShadowPod) bool { return shadow.Labels["tier"] == "front" })
	if all := shadow.Spec.Pod.EphemeralContainers; len(all) != 1 {
		t.Errorf("the shadow pod has %+v", all)
	}
}

func (o *offload) testWarned(t *testing.T) {
	o.bind(t, o.local, "warned", nil)
	remote := o.make(t, "warned")
	o.runs(t, remote, 0)
	o.awaitPod(t, o.local, "warned", "the pod is ready", isReady)
	say := func(name, kind string, uid types.UID) {
		t.Helper()
		_, err := o.Kube.CoreV1().Events(o.remote).Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: o.remote, Name: "warned", UID: uid},
			Type:           kind, Reason: "Unhealthy", Message: name + "\x1b[2J", Count: 1,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	say("all-is-well", corev1.EventTypeNormal, remote.UID)
	say("of-an-earlier-pod", corev1.EventTypeWarning, "earlier")
	say("probe-failed", corev1.EventTypeWarning, remote.UID)
	var warnings []string
	until(t, "the warning is reflected", func(ctx context.Context) (bool, error) {
		events, err := o.Kube.CoreV1().Events(o.local).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=warned"})
		if err != nil {
			return false, err
		}
		warnings = nil
		for _, event := range events.Items {
			warnings = append(warnings, fmt.Sprintf("%s %s %s", event.Type, event.Reason, event.Message))
		}
		return slices.Contains(warnings, "Warning Unhealthy milan: probe-failed[2J"), nil
	})
	if len(warnings) != 1 {
		t.Errorf("the pod has the events %q", warnings)
	}
}

func (o *offload) testPatched(t *testing.T) {
	o.bind(t, o.local, "runs", func(pod *corev1.Pod) { pod.Labels["secret"] = "x" })
	if shadow := o.shadow(t, "runs"); shadow.Labels["secret"] != "x" {
		t.Fatalf("labels %v", shadow.Labels)
	}
	patch := `{"spec":{"offloadingPatch":{"nodeSelector":{"disk":"ssd"},"runtimeClassName":"gvisor",
		"excludedLabels":["secret"],"tolerations":[{"key":"dedicated","operator":"Exists"}],
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
			{"matchExpressions":[{"key":"pool","operator":"Exists"}]}]}}}}}}`
	nodes := o.federation.FederationV1alpha1().VirtualNodes(o.peer)
	if _, err := nodes.Patch(t.Context(), virtualNode, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	dedicated := func(t corev1.Toleration) bool { return t.Key == "dedicated" }
	running := o.awaitShadow(t, "runs", "what can change in a running pod has changed",
		func(shadow *v1alpha1.ShadowPod) bool {
			_, has := shadow.Labels["secret"]
			return !has && slices.ContainsFunc(shadow.Spec.Pod.Tolerations, dedicated)
		})
	if running.Spec.Pod.NodeSelector != nil || running.Spec.Pod.RuntimeClassName != nil {
		t.Errorf("the running pod became %+v", running.Spec.Pod)
	}
	o.bind(t, o.local, "new", func(pod *corev1.Pod) { pod.Labels["secret"] = "x" })
	shadow := o.shadow(t, "new")
	spec := &shadow.Spec.Pod
	if _, has := shadow.Labels["secret"]; has || spec.NodeSelector["disk"] != "ssd" ||
		ptr.Deref(spec.RuntimeClassName, "") != "gvisor" ||
		!slices.ContainsFunc(spec.Tolerations, dedicated) || spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		t.Errorf("the new pod is %+v, labels %v", spec, shadow.Labels)
	}
	without := `{"spec":{"offloadingPatch":null}}`
	if _, err := nodes.Patch(t.Context(), virtualNode, types.MergePatchType, []byte(without),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitShadow(t, "runs", "the label is reflected again",
		func(shadow *v1alpha1.ShadowPod) bool { return shadow.Labels["secret"] == "x" })
	refused := `{"spec":{"offloadingPatch":{"affinity":{"podAntiAffinity":{
		"requiredDuringSchedulingIgnoredDuringExecution":[
			{"topologyKey":"kubernetes.io/hostname","namespaceSelector":{}}]}}}}}`
	_, err := nodes.Patch(t.Context(), virtualNode, types.MergePatchType, []byte(refused), metav1.PatchOptions{})
	if err == nil ||
		!strings.Contains(err.Error(),
			"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector") {
		t.Errorf("a patch that selects other namespaces: %v", err)
	}
}

func (o *offload) testAborted(t *testing.T) {
	o.bind(t, o.local, "aborted", nil)
	o.runs(t, o.make(t, "aborted"), 0)
	o.awaitPod(t, o.local, "aborted", "the pod is ready", isReady)
	maps := o.federation.FederationV1alpha1().NamespaceMaps(o.peer)
	if _, err := maps.Patch(t.Context(), "rome", types.MergePatchType, []byte(`{"spec":{"namespaces":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.awaitPod(t, o.local, "aborted", "the pod is not ready", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && pod.Status.Reason == v1alpha1.ReasonOffloadingAborted && !isReady(pod)
	})
	o.awaitPod(t, o.local, "aborted", "the pod has failed without an eviction", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == v1alpha1.ReasonOffloadingAborted
	})
}
