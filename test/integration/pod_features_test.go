// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// richPod sets all features of a pod that can be offloaded.
func richPod(pod *corev1.Pod) {
	app := &pod.Spec.Containers[0]
	app.Resources.Requests = amounts("cpu", "100m")
	app.Resources.Limits = amounts("example.com/gpu", "1", "hugepages-2Mi", "4Mi")
	app.VolumeMounts = []corev1.VolumeMount{{Name: "all", MountPath: "/all"}, {Name: "huge", MountPath: "/huge"}}
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "prepare", Image: "prepare:1"},
		{Name: "proxy", Image: "proxy:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "500m", "memory", "64Mi"),
		Limits: amounts("cpu", "1", "memory", "128Mi")}
	pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.SetHostnameAsFQDN = "first", "web", ptr.To(true)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/reached"}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "huge", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "password"}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}},
			}}}},
	}
}

// TestAPodWithEverythingRunsOnTheProvider checks that admission on either cluster accepts what the
// other one creates, with the API servers and controllers of both.
func TestAPodWithEverythingRunsOnTheProvider(t *testing.T) {
	o := newOffload(t)
	o.start(t)
	grant(t, o.Environment, o.federation, o.remote,
		amounts("pods", "10", "cpu", "1", "memory", "1Gi", "example.com/gpu", "1", "hugepages-2Mi", "4Mi"))
	labels := `{"metadata":{"labels":{"` + v1alpha1.LabelRole + `":"twin","` + v1alpha1.LabelForeignCluster + `":"` +
		o.remote + `","` +
		v1alpha1.LabelOrigin + `":"` + consumerID + `","` + v1alpha1.LabelDestination + `":"` + providerID + `"}}}`
	must(t)(o.Kube.CoreV1().Namespaces().Patch(t.Context(), o.remote, types.MergePatchType, []byte(labels),
		metav1.PatchOptions{}))
	runShadows(t, o.Environment.Admin)
	local := o.bind(t, o.local, "web", richPod)
	stage := stage{kube: o.Kube, federation: o.federation, namespace: o.remote}
	remote := stage.pod(t, "web")

	if diff := cmp.Diff(local.Spec.Resources, remote.Spec.Resources); diff != "" {
		t.Errorf("resources of the pod (-local +remote):\n%s", diff)
	}
	if diff := cmp.Diff(local.Spec.TopologySpreadConstraints, remote.Spec.TopologySpreadConstraints); diff != "" {
		t.Errorf("spread (-local +remote):\n%s", diff)
	}
	if remote.Spec.Hostname != "first" || remote.Spec.Subdomain != "web" ||
		!ptr.Deref(remote.Spec.SetHostnameAsFQDN, false) || remote.Spec.ReadinessGates != nil {
		t.Errorf("the remote pod is %s.%s, with the gates %v", remote.Spec.Hostname, remote.Spec.Subdomain,
			remote.Spec.ReadinessGates)
	}
	if limits := remote.Spec.Containers[0].Resources.Limits; !cmp.Equal(limits,
		local.Spec.Containers[0].Resources.Limits) {
		t.Errorf("the container is limited to %v", limits)
	}
	if init := remote.Spec.InitContainers; len(init) != 2 ||
		ptr.Deref(init[1].RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the init containers are %+v", init)
	}
	if diff := cmp.Diff(local.Spec.Volumes[:2], remote.Spec.Volumes); diff != "" {
		t.Errorf("volumes (-local +remote):\n%s", diff)
	}
	if remote.Status.QOSClass != local.Status.QOSClass {
		t.Errorf("its QoS class is %s on the provider, and %s locally", remote.Status.QOSClass, local.Status.QOSClass)
	}

	// The sidecar container was restarted, and the remote pod has no scheduling gate.
	since := metav1.Now()
	remote.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &since, QOSClass: remote.Status.QOSClass,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}},
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "prepare", ContainerID: "containerd://prepare", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
			{Name: "proxy", ContainerID: "containerd://proxy", Ready: true, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}}},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", ContainerID: "containerd://app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}}},
		},
	}
	must(t)(o.Kube.CoreV1().Pods(o.remote).UpdateStatus(t.Context(), remote, metav1.UpdateOptions{}))
	pod := o.awaitPod(t, o.local, "web", "its containers run",
		func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if init := pod.Status.InitContainerStatuses; len(init) != 2 || init[0].State.Terminated == nil ||
		init[1].State.Running == nil || init[1].RestartCount != 1 {
		t.Errorf("the init containers are %+v", init)
	}
	if isReady(pod) {
		t.Error("the pod is ready before its readiness gate")
	}
	o.change(t, "web", `{"status":{"conditions":[{"type":"example.com/reached","status":"True"}]}}`, "status")
	o.awaitPod(t, o.local, "web", "the pod is ready", isReady)

	// Requests of all resources count towards the quota.
	spec := shadowPodSpec()
	spec.Containers[0].Resources.Limits = amounts("example.com/gpu", "1", "hugepages-2Mi", "2Mi")
	spec.Containers[0].Resources.Requests = amounts("memory", "1Gi")
	_, err := o.federation.FederationV1alpha1().ShadowPods(o.remote).Create(t.Context(), &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: v1alpha1.ShadowPodSpec{Pod: spec},
	}, metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("one more is answered with %v", err)
	}
	var short []string
	for _, cause := range status.Status().Details.Causes {
		short = append(short, cause.Message)
	}
	want := []string{
		"example.com/gpu: 1 requested, 1 of 1 granted used, 0 left",
		"hugepages-2Mi: 2Mi requested, 4Mi of 4Mi granted used, 0 left",
		"memory: 1Gi requested, 64Mi of 1Gi granted used, 960Mi left",
	}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("other missing resources (-want +got):\n%s", diff)
	}
}
