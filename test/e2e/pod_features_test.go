// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// debugging returns the state of an ephemeral container in the status of a local pod.
func debugging(pod *corev1.Pod, name string) corev1.ContainerState {
	i := slices.IndexFunc(pod.Status.EphemeralContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return corev1.ContainerState{}
	}
	return pod.Status.EphemeralContainerStatuses[i].State
}

// debugsRemotePods runs kubectl debug for an offloaded pod with a profile that milan allows, and
// with a profile that it refuses.
func debugsRemotePods(t *testing.T) {
	o := serving(t)
	debug := func(name, profile string) {
		t.Helper()
		kubectl(t, rome, "debug", "-n", o.namespace, "web", "--container="+name, "--profile="+profile,
			"--image="+testerImage, "--image-pull-policy=Never", "--", tester, "print", "looked into by "+name)
	}
	debug("plain", "baseline")
	pod := podThat(t, rome, o.namespace, "web", "have been debugged",
		func(p *corev1.Pod) bool { return debugging(p, "plain").Terminated != nil })
	if ended := debugging(pod, "plain").Terminated; ended.ExitCode != 0 {
		t.Errorf("the container ended with %s", show(ended))
	}
	if log := kubectl(t, rome, "logs", "-n", o.namespace, "web", "-c", "plain"); log != "looked into by plain\n" {
		t.Errorf("its log is %q", log)
	}

	debug("root", "sysadmin")
	pod = podThat(t, rome, o.namespace, "web", "report that milan refuses", func(p *corev1.Pod) bool {
		waiting := debugging(p, "root").Waiting
		return waiting != nil && waiting.Reason == "ProviderRefused" && strings.Contains(waiting.Message, "privileged")
	})
	if !isReady(pod) {
		t.Error("the pod is not ready any more")
	}
	remote := podReady(t, milan, o.remote, "web")
	if all := remote.Spec.EphemeralContainers; len(all) != 1 || all[0].Name != "plain" {
		t.Errorf("on milan the pod has the containers %s", show(all))
	}
}

// resizesRemotePods increases and decreases the resources of a running pod. Milan's kubelet must
// resize the container without a restart.
func resizesRemotePods(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve", ":8081")
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	runReadyPod(t, o.namespace, "web", spec)
	run := containerRun(podReady(t, milan, o.remote, "web"))
	for _, cpu := range []string{"30m", "20m"} {
		runsThePage(t, rome, "pods.md#resizing", "web-0", "web -n "+o.namespace, `"app"`, `"tester"`, `"cpu":"2"`,
			`"cpu":"`+cpu+`"`)
		podThat(t, rome, o.namespace, "web", "have been allocated "+cpu, func(p *corev1.Pod) bool {
			return isReady(p) && len(p.Status.ContainerStatuses) == 1 &&
				p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String() == cpu
		})
		remote := podReady(t, milan, o.remote, "web")
		if requests := remote.Spec.Containers[0].Resources.Requests.Cpu().String(); requests != cpu ||
			containerRun(remote) != run {
			t.Errorf("on milan the pod requests %s, want %s; its container was %s and is %s", requests, cpu, run,
				containerRun(remote))
		}
		eventually(t, soon, "nothing to be left to release", func(ctx context.Context) (bool, string, error) {
			shadow, err := milan.Federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return shadow.Status.AllocatedResources == nil, show(shadow.Status), nil
		})
	}
}

// reflectsWarningEvents checks that warning events of milan's kubelet are reflected to rome.
func reflectsWarningEvents(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.Containers[0].Image = "liqo.io/nothing-of-that-name:dev"
	runPod(t, o.namespace, "unknown-image", spec)
	reflected := func(ctx context.Context, kind string) ([]string, error) {
		events, err := rome.Kube.CoreV1().Events(o.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "source=federation-virtual-kubelet,involvedObject.name=unknown-image,type=" + kind,
		})
		if err != nil {
			return nil, err
		}
		var all []string
		for _, event := range events.Items {
			all = append(all, event.Reason+" "+event.Message)
		}
		return all, nil
	}
	eventually(t, soon, "the warning about the missing image", func(ctx context.Context) (bool, string, error) {
		all, err := reflected(ctx, corev1.EventTypeWarning)
		return slices.ContainsFunc(all, func(one string) bool {
			return strings.HasPrefix(one, "ErrImageNeverPull milan: ")
		}), fmt.Sprintf("events: %q", all), err
	})
	// Normal events, for example of the scheduler, are not reflected.
	if all := must(reflected(t.Context(), corev1.EventTypeNormal))(t); len(all) > 0 {
		t.Errorf("normal events are reflected: %q", all)
	}
}

// podsSeeTheFieldsOfTheLocalPod checks that the downward API of a remote pod has the values of its
// local pod, in variables and in files.
func podsSeeTheFieldsOfTheLocalPod(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve", ":8081")
	fields := map[string]string{"NAMESPACE": "metadata.namespace", "UID": "metadata.uid", "NODE": "spec.nodeName",
		"ACCOUNT": "spec.serviceAccountName"}
	for name, path := range fields {
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
		}})
	}
	spec.Volumes = []corev1.Volume{{Name: "self",
		VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
		}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "self", MountPath: "/self"}}
	local := runReadyPod(t, o.namespace, "web", spec)
	for name, want := range map[string]string{"NAMESPACE": o.namespace, "UID": string(local.UID), "NODE": virtualNode,
		"ACCOUNT": "default"} {
		if got := kubectl(t, rome, "exec", "-n", o.namespace, "web", "--", tester, "env",
			name); strings.TrimSpace(got) != want {
			t.Errorf("%s is %q in the pod, want %q", name, got, want)
		}
	}
	if got := kubectl(t, rome, "exec", "-n", o.namespace, "web", "--", tester, "read",
		"/self/namespace"); strings.TrimSpace(got) != o.namespace {
		t.Errorf("the file of the namespace has %q, want %q", got, o.namespace)
	}
}

// patchesOffloadedPods checks that an offloading patch of the virtual node adds tolerations and a
// node selector to remote pods, and excludes a label.
func patchesOffloadedPods(t *testing.T) {
	o := offloaded(t, remoteOnly)
	const key = "e2e.example.org/secret"
	labelled := func(name string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: "x"}},
			Spec: podSpec("serve")}
		must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		podReady(t, rome, o.namespace, name)
	}
	labelled("before")
	run := containerRun(podReady(t, milan, o.remote, "before"))
	patchVirtualNode(t, v1alpha1.OffloadingPatch{
		NodeSelector:   map[string]string{corev1.LabelOSStable: "linux"},
		ExcludedLabels: []string{key},
		Tolerations: []corev1.Toleration{{Key: "e2e.example.org/dedicated", Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule}},
	})
	changed := func(p *corev1.Pod) bool {
		_, labelled := p.Labels[key]
		return isReady(p) && !labelled && p.Labels[v1alpha1.LabelOrigin] != "" && slices.ContainsFunc(p.Spec.Tolerations,
			func(t corev1.Toleration) bool {
				return t.Key == "e2e.example.org/dedicated"
			})
	}
	remote := podThat(t, milan, o.remote, "before", "have the patch", changed)
	if containerRun(remote) != run || len(remote.Spec.NodeSelector) > 0 {
		t.Errorf("the pod that ran before was disturbed: %s before, now %s on nodes %v", run, containerRun(remote),
			remote.Spec.NodeSelector)
	}
	labelled("after")
	if remote = podThat(t, milan, o.remote, "after", "have the patch",
		changed); remote.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("the new pod chooses the nodes %v", remote.Spec.NodeSelector)
	}
	if local := podReady(t, rome, o.namespace, "after"); local.Labels[key] != "x" {
		t.Errorf("on rome the pod lost its label: %v", local.Labels)
	}
	// milan lacks the runtime class, but no pod is created any more.
	runsThePage(t, rome, "pods.md#what-the-virtual-node-adds")
}

// patchVirtualNode sets the offloading patch of the virtual node, and removes it when the test
// ends.
func patchVirtualNode(t *testing.T, patch v1alpha1.OffloadingPatch) {
	t.Helper()
	set := func(ctx context.Context, patch string) error {
		_, err := rome.Federation.FederationV1alpha1().VirtualNodes(peerNamespace).Patch(ctx, "milan", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"offloadingPatch":%s}}`, patch), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func() {
		if err := set(context.WithoutCancel(t.Context()), "null"); err != nil {
			t.Error(err)
		}
	})
	if err := set(t.Context(), show(patch)); err != nil {
		t.Fatal(err)
	}
}
