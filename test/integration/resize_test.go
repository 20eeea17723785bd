// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// regrant changes the number of CPUs in a consumer's quota.
func regrant(t *testing.T, federation versioned.Interface, consumer, cpus string) {
	t.Helper()
	patch := `{"spec":{"resources":{"pods":"100","cpu":"` + cpus + `"}}}`
	must(t)(federation.FederationV1alpha1().ResourceOffers(naming.TenantNamespace(consumer)).Patch(t.Context(),
		framework.ClusterName, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

// cpusOf returns the CPU request of the first container.
func cpusOf(spec *corev1.PodSpec) string { return spec.Containers[0].Resources.Requests.Cpu().String() }

// allocates sets the status of a running pod to these allocated CPUs and these resize conditions,
// as its kubelet does.
func allocates(t *testing.T, env *framework.Environment, namespace, name, cpus string,
	resizing ...corev1.PodCondition) {
	t.Helper()
	pod, err := env.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	since := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &since, PodIP: "10.200.0.8", PodIPs: []corev1.PodIP{{IP: "10.200.0.8"}},
		QOSClass: pod.Status.QOSClass,
		Conditions: append([]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: since}}, resizing...),
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, ContainerID: "containerd://" + string(pod.UID), Ready: true,
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
			AllocatedResources: amounts("cpu", cpus), Resources: &corev1.ResourceRequirements{Requests: amounts("cpu", cpus)},
		}},
	}
	pod.ResourceVersion = ""
	must(t)(env.Kube.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
}

func TestAPodIsResizedWithinTheGrant(t *testing.T) {
	env := framework.Get(t)
	s := newStage(t)
	regrant(t, s.federation, s.namespace, "3")
	shadows := s.federation.FederationV1alpha1().ShadowPods(s.namespace)
	post := func(name, cpus string, options metav1.CreateOptions) error {
		_, err := shadows.Create(t.Context(), &v1alpha1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false),
				Containers: []corev1.Container{{Name: "main", Image: "example.com/one",
					Resources: corev1.ResourceRequirements{Requests: amounts("cpu", cpus)}}},
			}},
		}, options)
		return err
	}
	resize := func(cpus string) error {
		patch := `[{"op":"replace","path":"/spec/pod/containers/0/resources/requests/cpu","value":"` + cpus + `"}]`
		_, err := shadows.Patch(t.Context(), "web", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	resized := func(cpus string) {
		t.Helper()
		until(t, "the pod requests "+cpus+" CPUs", func(ctx context.Context) (bool, error) {
			pod, err := s.kube.CoreV1().Pods(s.namespace).Get(ctx, "web", metav1.GetOptions{})
			return err == nil && cpusOf(&pod.Spec) == cpus, err
		})
	}
	until(t, "nothing beyond the quota is created", func(context.Context) (bool, error) {
		err := post("probe", "100", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded), nil
	})
	must(post("web", "500m", metav1.CreateOptions{}))
	first := s.pod(t, "web")
	must(resize("1"))
	resized("1")
	if err := resize("4"); !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) ||
		!strings.Contains(err.Error(), "is exceeded: cpu: 3 requested, 1 of 3 granted used, 2 left") {
		t.Errorf("more than the quota is answered with: %v", err)
	}

	// A resize that the provider refuses is reported on the local pod, and retried.
	node := "resizing-" + s.namespace
	must(s.kube.CoreV1().Pods(s.namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
	must(resize("2"))
	until(t, "the shadow pod reports why its pod is not resized", func(context.Context) (bool, error) {
		condition := meta.FindStatusCondition(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodResized)
		return condition != nil && condition.Status == metav1.ConditionFalse && strings.Contains(condition.Message, node), nil
	})
	t.Cleanup(func() { _ = s.kube.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	_, err := s.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Allocatable: amounts("cpu", "8", "memory", "8Gi"),
			Capacity: amounts("cpu", "8", "memory", "8Gi")},
	}, metav1.CreateOptions{})
	must(err)
	resized("2")
	until(t, "the shadow pod reports the resize", func(context.Context) (bool, error) {
		return meta.IsStatusConditionTrue(s.shadow(t, "web").Status.Conditions, v1alpha1.ConditionPodResized), nil
	})

	// When a pod shrinks, quota stays in use until its kubelet has released the CPUs.
	allocates(t, env, s.namespace, "web", "2")
	must(resize("500m"))
	resized("500m")
	if got := s.shadow(t, "web").Status.AllocatedResources; got.Cpu().String() != "2" {
		t.Errorf("it still holds %v", got)
	}
	if err := post("next", "1500m", metav1.CreateOptions{}); !apierrors.HasStatusCause(err, v1alpha1.CauseQuotaExceeded) {
		t.Errorf("quota that is held was granted to another pod: %v", err)
	}
	allocates(t, env, s.namespace, "web", "500m")
	until(t, "it has released that", func(context.Context) (bool, error) {
		return s.shadow(t, "web").Status.AllocatedResources == nil, nil
	})
	must(post("next", "1500m", metav1.CreateOptions{}))
	if pod := s.pod(t, "web"); pod.UID != first.UID {
		t.Error("the pod was replaced")
	}
}

func TestResizeOfALocalPodIsReflected(t *testing.T) {
	o := newOffload(t)
	o.start(t)
	grant(t, o.Environment, o.federation, o.remote, amounts("pods", "100", "cpu", "1"))
	label := `{"metadata":{"labels":{"` + v1alpha1.LabelRole + `":"twin","` + v1alpha1.LabelForeignCluster + `":"` +
		o.remote + `"}}}`
	must(t)(o.Kube.CoreV1().Namespaces().Patch(t.Context(), o.remote, types.MergePatchType, []byte(label),
		metav1.PatchOptions{}))
	isHeldToItsGrant(t, o)
	resize := func(cpus string) {
		t.Helper()
		o.change(t, "web", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"`+cpus+`"}}}]}}`, "resize")
	}
	requests := func(cpus string) {
		t.Helper()
		o.awaitShadow(t, "web", "the shadow pod requests "+cpus,
			func(shadow *v1alpha1.ShadowPod) bool { return cpusOf(&shadow.Spec.Pod) == cpus })
	}
	pending := func(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
		for _, c := range pod.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
		return corev1.PodCondition{}
	}
	o.bind(t, o.local, "web", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = amounts("cpu", "500m")
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU,
			RestartPolicy: corev1.RestartContainer}}
	})
	if policy := o.make(t, "web").Spec.Containers[0].ResizePolicy; len(policy) == 0 ||
		policy[0].RestartPolicy != corev1.RestartContainer {
		t.Errorf("the resize policy is %v", policy)
	}
	allocates(t, o.Environment, o.remote, "web", "500m")
	o.awaitPod(t, o.local, "web", "the pod is ready", isReady)

	resize("1")
	requests("1")
	resize("2")
	o.awaitPod(t, o.local, "web", "the pod reports what it waits for", func(pod *corev1.Pod) bool {
		c := pending(pod, corev1.PodResizePending)
		return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonDeferred &&
			strings.Contains(c.Message, "cpu: 1 requested, 1 of 1 granted used, 0 left")
	})
	until(t, "an event reports it, too", func(ctx context.Context) (bool, error) {
		events, err := o.Kube.CoreV1().Events(o.local).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=QuotaExceeded,involvedObject.name=web"})
		return err == nil && len(events.Items) > 0, err
	})
	o.change(t, "web", `{"metadata":{"labels":{"tier":"front"}}}`)
	o.awaitShadow(t, "web", "other changes are reflected",
		func(shadow *v1alpha1.ShadowPod) bool { return shadow.Labels["tier"] == "front" })
	regrant(t, o.federation, o.remote, "3")
	requests("2")

	// The provider's kubelet has not completed the resize yet.
	allocates(t, o.Environment, o.remote, "web", "2",
		corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
	o.awaitPod(t, o.local, "web", "the resize is under way", func(pod *corev1.Pod) bool {
		return pending(pod, corev1.PodResizeInProgress).Status == corev1.ConditionTrue &&
			pending(pod, corev1.PodResizePending).Status == ""
	})
	allocates(t, o.Environment, o.remote, "web", "2")
	o.awaitPod(t, o.local, "web", "the pod is resized", func(pod *corev1.Pod) bool {
		app := pod.Status.ContainerStatuses[0]
		return pending(pod, corev1.PodResizeInProgress).Status == "" && app.AllocatedResources.Cpu().String() == "2" &&
			app.Resources.Requests.Cpu().String() == "2"
	})
	resize("100m")
	requests("100m")
}
