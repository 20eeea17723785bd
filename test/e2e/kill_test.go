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

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/harness"
)

// killOnce kills the main process of a container, and waits until the kubelet has restarted the
// container and it is ready. Processes of the same program on other nodes are not affected.
func killOnce(t *testing.T, c *harness.Cluster, pod *corev1.Pod, program string) {
	t.Helper()
	processes := must(playground.Processes(t.Context(), pod.Spec.NodeName))(t)
	var found []harness.Process
	for _, p := range processes {
		if p.Program() == program && !slices.ContainsFunc(p.Args,
			func(a string) bool { return strings.Contains(a, "identity-signer") }) {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		t.Fatalf("node %s has %d processes %s, want 1", pod.Spec.NodeName, len(found), program)
	}
	before := restarts(pod)
	if err := playground.Kill(t.Context(), pod.Spec.NodeName, found[0]); err != nil {
		t.Fatal(err)
	}
	podWithin(t, calm, c, pod.Namespace, pod.Name, "be killed, started again and Ready", func(p *corev1.Pod) bool {
		return isReady(p) && restarts(p) > before
	})
}

func restarts(pod *corev1.Pod) int32 {
	var sum int32
	for _, s := range pod.Status.ContainerStatuses {
		sum += s.RestartCount
	}
	return sum
}

// componentPod returns the running pod in the installation namespace whose name has this prefix. It
// fails the test if there is not exactly one.
func componentPod(t *testing.T, c *harness.Cluster, prefix string) *corev1.Pod {
	t.Helper()
	pods := must(c.Kube.CoreV1().Pods(harness.Namespace).List(t.Context(), metav1.ListOptions{}))(t)
	pods.Items = slices.DeleteFunc(pods.Items,
		func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, prefix) || p.DeletionTimestamp != nil })
	if len(pods.Items) != 1 {
		t.Fatalf("%d pods on %s are called %s…, want 1", len(pods.Items), c.Name, prefix)
	}
	return &pods.Items[0]
}

// killedVirtualKubelet kills the virtual kubelet while pods are created, complete and are deleted.
// Each pod must run exactly once.
func killedVirtualKubelet(t *testing.T) {
	o := offloaded(t, remoteOnly)
	stays := runDeployment(t, o.namespace, "stays", 2, podSpec("serve"))
	var runs []string
	for _, pod := range stays {
		runs = append(runs, containerRun(podReady(t, milan, o.remote, pod.Name)))
	}
	deleted := runReadyPod(t, o.namespace, "deleted", podSpec("serve"))
	watched := watchPods(t, o)
	const completions = 10
	spec := podSpec("print", "done")
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{
		Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](5), BackoffLimit: ptr.To[int32](0),
		Template: corev1.PodTemplateSpec{Spec: spec},
	}}
	must(rome.Kube.BatchV1().Jobs(o.namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	kubectl(t, rome, "delete", "pod", deleted.Name, "-n", o.namespace, "--wait=false")
	killOnce(t, rome, virtualKubelet(t), "federation-virtual-kubelet")

	podGone(t, rome, o.namespace, deleted.Name)
	podGone(t, milan, o.remote, deleted.Name)
	eventually(t, soon, fmt.Sprintf("%d completions", completions), func(ctx context.Context) (bool, string, error) {
		job, err := rome.Kube.BatchV1().Jobs(o.namespace).Get(ctx, "once", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		if job.Status.Failed > 0 {
			return false, "", harness.Permanent(fmt.Errorf("pods of the job failed: %s", show(job.Status)))
		}
		return job.Status.Succeeded == completions, show(job.Status), nil
	})
	// The deleted pod has terminated as well. It is no pod of the Job, so it is not counted.
	watched.ranOnce(t, completions, deleted.UID)
	for i, pod := range podsReady(t, rome, o.namespace, "app=stays", 2) {
		if pod.UID != stays[i].UID || containerRun(podReady(t, milan, o.remote, pod.Name)) != runs[i] {
			t.Errorf("pod %s was disturbed", pod.Name)
		}
	}
}

// killedControllerManager kills the controller managers of both clusters while namespaces are
// offloaded and unoffloaded.
func killedControllerManager(t *testing.T) {
	for _, cluster := range []*harness.Cluster{rome, milan} {
		load := startLoad(t)
		load.reach(t, 10)
		killOnce(t, cluster, componentPod(t, cluster, "federation-controller-manager"), "federation-controller-manager")
		load.reach(t, 5)
		load.hasAcknowledgedObjects(t)
	}
	o := offloaded(t, remoteOnly)
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
}

// killedAPIServer kills the federation API servers of both clusters under a load of writes. No
// acknowledged creation or deletion may be lost.
func killedAPIServer(t *testing.T) {
	o := serving(t)
	run := containerRun(podReady(t, milan, o.remote, "web"))
	for _, cluster := range []*harness.Cluster{rome, milan} {
		load := startLoad(t)
		load.reach(t, 10)
		killOnce(t, cluster, componentPod(t, cluster, "federation-apiserver"), "federation-apiserver")
		load.reach(t, 5)
		load.hasAcknowledgedObjects(t)
	}
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
	if now := containerRun(podReady(t, milan, o.remote, "web")); now != run {
		t.Errorf("the pod was disturbed: %s before, %s after", run, now)
	}
}
