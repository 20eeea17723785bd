// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

// restartBudget is the maximal time, in seconds, from the start of a virtual kubelet's process
// until it makes a new pod Ready.
const restartBudget = 3.0

// restart has the durations of one replacement of a virtual kubelet.
type restart struct {
	// fromDeletion is the time from the deletion of the old virtual kubelet's pod until a pod is
	// Ready that was created after the old process ended. fromStart is the time from the start of
	// the new process until then. Kubernetes needs the difference to create, bind and start the new
	// pod of the virtual kubelet.
	fromDeletion, fromStart time.Duration
}

// measureRestarts restarts the virtual kubelet while its node has the largest number of pods.
func (b *bench) measureRestarts(ctx context.Context) ([]row, error) {
	size := b.options.pods[len(b.options.pods)-1]
	local, err := watchPods(ctx, b.rome, offloaded, nil)
	if err != nil {
		return nil, err
	}
	defer local.stop()
	remote, err := watchPods(ctx, b.milan, b.remote, nil)
	if err != nil {
		return nil, err
	}
	defer remote.stop()
	client := b.rome.Kube.AppsV1().Deployments(offloaded)
	deployment := deployment(size, onVirtual)
	if _, err := client.Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	var restarts []restart
	for run := range b.options.runs {
		if _, err := local.until(ctx, fmt.Sprintf("%d Ready pods in %s", size, offloaded),
			func(all, ready int) bool { return all == size && ready == size }); err != nil {
			return nil, err
		}
		r, err := b.restart(ctx, local, size)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr,
			"%4d pods, restart %d: a new pod is Ready %s after the deletion, %s after the start of the process\n",
			size, run+1, r.fromDeletion.Round(time.Millisecond), r.fromStart.Round(time.Millisecond))
		restarts = append(restarts, r)
	}
	if err := client.Delete(ctx, deployment.Name,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		return nil, err
	}
	for _, side := range []*podWatch{local, remote} {
		if _, err := side.until(ctx, "no pods in "+side.namespace, func(all, _ int) bool { return all == 0 }); err != nil {
			return nil, err
		}
	}
	return restartRows(size, restarts), nil
}

func restartRows(size int, restarts []restart) []row {
	var fromDeletion, fromStart figures.Series
	for _, r := range restarts {
		fromDeletion = append(fromDeletion, r.fromDeletion.Seconds())
		fromStart = append(fromStart, r.fromStart.Seconds())
	}
	pods := fmt.Sprint(size)
	return []row{
		{"pod of the virtual kubelet deleted → a new offloaded pod Ready", pods, "–", fromDeletion.Format(" s"), "–", "–"},
		{"process of the new virtual kubelet started → the same pod Ready", pods, "–", fromStart.Format(" s"), "–", figures.AtMost(fromStart.Median(), restartBudget, " s")},
	}
}

// restart deletes the pod of the virtual kubelet, as an upgrade does. It measures the time until a
// pod is Ready that was created after the old process ended. Killing the process would measure the
// expiry of its Lease, which only a terminating virtual kubelet releases.
func (b *bench) restart(ctx context.Context, local *podWatch, size int) (restart, error) {
	if err := b.quiet(ctx); err != nil {
		return restart{}, err
	}
	pod, err := b.virtualKubelet(ctx)
	if err != nil {
		return restart{}, err
	}
	processes, err := b.kubeletProcesses(ctx, pod.Spec.NodeName)
	if err != nil {
		return restart{}, err
	}
	if len(processes) != 1 {
		return restart{}, fmt.Errorf("node %s has %d processes %s, want 1", pod.Spec.NodeName, len(processes), virtualKubelet)
	}
	deleted := time.Now()
	if err := b.rome.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return restart{}, err
	}
	if err := b.ended(ctx, pod.Spec.NodeName, processes[0]); err != nil {
		return restart{}, err
	}
	pods := b.rome.Kube.CoreV1().Pods(offloaded)
	probe, err := pods.Create(ctx, singlePod("after-restart"), metav1.CreateOptions{})
	if err != nil {
		return restart{}, err
	}
	ready, err := local.until(ctx, fmt.Sprintf("%d Ready pods in %s after a restart", size+1, offloaded),
		func(_, ready int) bool { return ready == size+1 })
	if err != nil {
		return restart{}, err
	}
	started, err := b.kubeletStarted(ctx, processes[0])
	if err != nil {
		return restart{}, err
	}
	return restart{ready.Sub(deleted), ready.Sub(started)}, pods.Delete(ctx, probe.Name, metav1.DeleteOptions{})
}

// ended waits until a process of a node has ended.
func (b *bench) ended(ctx context.Context, node string, process harness.Process) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			left, err := b.kubeletProcesses(ctx, node)
			return !slices.ContainsFunc(left, func(p harness.Process) bool { return p.Start == process.Start }), err
		})
}

// virtualKubelet returns the running pod of the virtual kubelet.
func (b *bench) virtualKubelet(ctx context.Context) (*corev1.Pod, error) {
	const selector = "app.kubernetes.io/name=" + virtualKubelet
	pods, err := b.rome.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("%s has %d pods with %s, want 1", b.rome.Name, len(pods.Items), selector)
	}
	return &pods.Items[0], nil
}

func (b *bench) kubeletProcesses(ctx context.Context, node string) ([]harness.Process, error) {
	processes, err := b.playground.Processes(ctx, node)
	if err != nil {
		return nil, err
	}
	var found []harness.Process
	for _, p := range processes {
		if p.Program() == virtualKubelet {
			found = append(found, p)
		}
	}
	return found, nil
}

// kubeletStarted returns the start time of the virtual kubelet's process that replaced the process before.
func (b *bench) kubeletStarted(ctx context.Context, before harness.Process) (time.Time, error) {
	for _, node := range b.nodes {
		processes, err := b.kubeletProcesses(ctx, node)
		if err != nil {
			return time.Time{}, err
		}
		for _, p := range processes {
			if p.Start != before.Start {
				return p.Started()
			}
		}
	}
	return time.Time{}, fmt.Errorf("no node has another process %s than %d", virtualKubelet, before.PID)
}
