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

// debugging is how an ephemeral container of a pod stands on rome.
func debugging(pod *corev1.Pod, name string) corev1.ContainerState {
	i := slices.IndexFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return corev1.ContainerState{}
	}
	return pod.Status.EphemeralContainerStatuses[i].State
}

// debugsRemotePods looks into a pod with kubectl debug, and tries to do so
// with more than milan allows.
func debugsRemotePods(t *testing.T) {
	o := serving(t)
	debug := func(name, profile string) {
		t.Helper()
		kubectl(t, rome, "debug", "-n", o.namespace, "web", "--container="+name, "--profile="+profile,
			"--image="+testerImage, "--image-pull-policy=Never", "--", tester, "print", "looked into by "+name)
	}
	debug("plain", "baseline")
	pod := podThat(t, rome, o.namespace, "web", "have been looked into", func(p *corev1.Pod) bool { return debugging(p, "plain").Terminated != nil })
	if ended := debugging(pod, "plain").Terminated; ended.ExitCode != 0 {
		t.Errorf("the container ended with %s", show(ended))
	}
	if log := kubectl(t, rome, "logs", "-n", o.namespace, "web", "-c", "plain"); log != "looked into by plain\n" {
		t.Errorf("its log is %q", log)
	}

	debug("root", "sysadmin")
	pod = podThat(t, rome, o.namespace, "web", "tell that milan refuses", func(p *corev1.Pod) bool {
		waiting := debugging(p, "root").Waiting
		return waiting != nil && waiting.Reason == "ProviderRefused" && strings.Contains(waiting.Message, "privileged")
	})
	if !isReady(pod) {
		t.Error("the pod is not ready any more")
	}
	there := podReady(t, milan, o.twin, "web")
	if all := there.Spec.EphemeralContainers; len(all) != 1 || all[0].Name != "plain" {
		t.Errorf("on milan the pod has the containers %s", show(all))
	}
}

// resizesRemotePods makes a pod larger and smaller again, and looks that milan's
// kubelet does so, to the running container.
func resizesRemotePods(t *testing.T) {
	o := offloaded(t, remote)
	spec := podSpec("serve", ":8081")
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	runReadyPod(t, o.namespace, "web", spec)
	run := containerRun(podReady(t, milan, o.twin, "web"))
	for _, cpu := range []string{"30m", "20m"} {
		kubectl(t, rome, "patch", "pod", "-n", o.namespace, "web", "--subresource=resize",
			"-p", `{"spec":{"containers":[{"name":"tester","resources":{"requests":{"cpu":"`+cpu+`"}}}]}}`)
		podThat(t, rome, o.namespace, "web", "have been allocated "+cpu, func(p *corev1.Pod) bool {
			return isReady(p) && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String() == cpu
		})
		there := podReady(t, milan, o.twin, "web")
		if asks := there.Spec.Containers[0].Resources.Requests.Cpu().String(); asks != cpu || containerRun(there) != run {
			t.Errorf("on milan the pod asks for %s, want %s; its container was %s and is %s", asks, cpu, run, containerRun(there))
		}
		eventually(t, soon, "nothing to be left to give back", func(ctx context.Context) (bool, string, error) {
			shadow, err := milan.Federation.FederationV1alpha1().ShadowPods(o.twin).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return shadow.Status.AllocatedResources == nil, show(shadow.Status), nil
		})
	}
}

// warningsComeBack looks that who waits on rome for a pod is told what milan's
// kubelet says about it.
func warningsComeBack(t *testing.T) {
	o := offloaded(t, remote)
	spec := podSpec("serve")
	spec.Containers[0].Image = "liqo.io/nothing-of-that-name:dev"
	runPod(t, o.namespace, "unknown-image", spec)
	told := func(ctx context.Context, kind string) ([]string, error) {
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
		all, err := told(ctx, corev1.EventTypeWarning)
		return slices.ContainsFunc(all, func(one string) bool {
			return strings.HasPrefix(one, "ErrImageNeverPull milan: ")
		}), fmt.Sprintf("told: %q", all), err
	})
	// That the pod was scheduled, for one, is no news on rome.
	if all := must(told(t.Context(), corev1.EventTypeNormal))(t); len(all) > 0 {
		t.Errorf("what goes well is told too: %q", all)
	}
}

// podsSeeTheFieldsOfTheLocalPod looks that a pod learns of itself what it would learn on
// rome, in variables as in files.
func podsSeeTheFieldsOfTheLocalPod(t *testing.T) {
	o := offloaded(t, remote)
	spec := podSpec("serve", ":8081")
	fields := map[string]string{"NAMESPACE": "metadata.namespace", "UID": "metadata.uid", "NODE": "spec.nodeName", "ACCOUNT": "spec.serviceAccountName"}
	for name, path := range fields {
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
		}})
	}
	spec.Volumes = []corev1.Volume{{Name: "self", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
	}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "self", MountPath: "/self"}}
	here := runReadyPod(t, o.namespace, "web", spec)
	for name, want := range map[string]string{"NAMESPACE": o.namespace, "UID": string(here.UID), "NODE": virtualNode, "ACCOUNT": "default"} {
		if got := kubectl(t, rome, "exec", "-n", o.namespace, "web", "--", tester, "env", name); strings.TrimSpace(got) != want {
			t.Errorf("%s is %q in the pod, want %q", name, got, want)
		}
	}
	if got := kubectl(t, rome, "exec", "-n", o.namespace, "web", "--", tester, "read", "/self/namespace"); strings.TrimSpace(got) != o.namespace {
		t.Errorf("the file of the namespace says %q, want %q", got, o.namespace)
	}
}

// virtualNodeChangesItsPods has the virtual node add to its pods what milan's
// nodes ask for, and keep home what is none of milan's business.
func virtualNodeChangesItsPods(t *testing.T) {
	o := offloaded(t, remote)
	const key = "e2e.example.org/secret"
	labelled := func(name string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: "x"}}, Spec: podSpec("serve")}
		must(rome.Kube.CoreV1().Pods(o.namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		podReady(t, rome, o.namespace, name)
	}
	labelled("before")
	run := containerRun(podReady(t, milan, o.twin, "before"))
	patchVirtualNode(t, v1alpha1.OffloadingPatch{
		NodeSelector:   map[string]string{corev1.LabelOSStable: "linux"},
		ExcludedLabels: []string{key},
		Tolerations:    []corev1.Toleration{{Key: "e2e.example.org/borrowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	})
	changed := func(p *corev1.Pod) bool {
		_, labelled := p.Labels[key]
		return isReady(p) && !labelled && p.Labels[v1alpha1.LabelOrigin] != "" && slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == "e2e.example.org/borrowed"
		})
	}
	there := podThat(t, milan, o.twin, "before", "tolerate more and tell less", changed)
	if containerRun(there) != run || len(there.Spec.NodeSelector) > 0 {
		t.Errorf("the pod that ran before was disturbed: %s before, now %s on nodes %v", run, containerRun(there), there.Spec.NodeSelector)
	}
	labelled("after")
	if there = podThat(t, milan, o.twin, "after", "tolerate more and tell less", changed); there.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("the new pod chooses the nodes %v", there.Spec.NodeSelector)
	}
	if here := podReady(t, rome, o.namespace, "after"); here.Labels[key] != "x" {
		t.Errorf("on rome the pod lost its label: %v", here.Labels)
	}
}

// patchVirtualNode gives something to the pods of the virtual node until the
// test ends.
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
