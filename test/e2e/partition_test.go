// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/harness"
)

const outage = time.Minute

// providerUnreachableForAMinute partitions the clusters. Pods on milan must continue to run, and
// changes on either cluster must be applied afterwards.
func providerUnreachableForAMinute(t *testing.T) {
	o := offloaded(t, remoteOnly)
	untouched := runDeployment(t, o.namespace, "untouched", 1, podSpec("serve"))[0]
	lost := runDeployment(t, o.namespace, "lost", 1, podSpec("serve"))[0]
	unwanted := runReadyPod(t, o.namespace, "unwanted", podSpec("serve"))
	settings := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	}
	own, copies := rome.Kube.CoreV1().ConfigMaps(o.namespace), milan.Kube.CoreV1().ConfigMaps(o.remote)
	settingsAre := func(want map[string]string) {
		t.Helper()
		eventually(t, soon, "milan to have the settings of rome", func(ctx context.Context) (bool, string, error) {
			list, err := copies.List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			got := map[string]string{}
			for _, one := range list.Items {
				if value, ok := one.Data["key"]; ok {
					got[one.Name] = value
				}
			}
			return maps.Equal(got, want), show(got), nil
		})
	}
	must(own.Create(t.Context(), settings("updated", "before"), metav1.CreateOptions{}))(t)
	must(own.Create(t.Context(), settings("deleted", "before"), metav1.CreateOptions{}))(t)
	settingsAre(map[string]string{"updated": "before", "deleted": "before"})
	untouchedRemote := podReady(t, milan, o.remote, untouched.Name)
	lostRemote := podReady(t, milan, o.remote, lost.Name)

	cut(t)
	since := time.Now()

	// Deletions and changes on rome take effect after the partition.
	kubectl(t, rome, "delete", "pod", "unwanted", "-n", o.namespace, "--wait=false")
	must(own.Update(t.Context(), settings("updated", "after"), metav1.UpdateOptions{}))(t)
	must(own.Create(t.Context(), settings("created", "after"), metav1.CreateOptions{}))(t)
	kubectl(t, rome, "delete", "configmap", "deleted", "-n", o.namespace)
	eventually(t, outage, "node "+virtualNode+" to be NotReady", func(ctx context.Context) (bool, string, error) {
		node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return !nodeReady(node), show(node.Status.Conditions), nil
	})
	t.Logf("the node was NotReady %s after the cut", time.Since(since).Round(time.Second))

	// During the partition, milan has to recreate a deleted remote pod without rome.
	if err := milan.Kube.CoreV1().Pods(o.remote).Delete(t.Context(), lostRemote.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	podThat(t, milan, o.remote, lost.Name, "be recreated by milan alone",
		func(p *corev1.Pod) bool { return p.UID != lostRemote.UID && isReady(p) })

	err := harness.Consistently(t.Context(), time.Until(since.Add(outage)), "the pod runs on, on milan as on rome",
		func(ctx context.Context) (bool, string, error) {
			remote, err := milan.Kube.CoreV1().Pods(o.remote).Get(ctx, untouched.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			local, err := rome.Kube.CoreV1().Pods(o.namespace).Get(ctx, untouched.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			same := remote.UID == untouchedRemote.UID && local.UID == untouched.UID && local.DeletionTimestamp == nil &&
				isReady(remote) && local.Status.Phase == corev1.PodRunning && containerRun(remote) == containerRun(untouchedRemote)
			return same, podState(remote) + "; " + podState(local), nil
		})
	if err != nil {
		t.Fatal(err)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	healed := time.Now()
	eventually(t, soon, "node "+virtualNode+" to be Ready again", func(ctx context.Context) (bool, string, error) {
		node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return nodeReady(node), show(node.Status.Conditions), nil
	})
	t.Logf("the node was Ready %s after the reconnection", time.Since(healed).Round(time.Second))
	settingsAre(map[string]string{"updated": "after", "created": "after"})
	podGone(t, rome, o.namespace, unwanted.Name)
	podGone(t, milan, o.remote, unwanted.Name)
	for _, pod := range []corev1.Pod{untouched, lost} {
		isSameOnBothSides(t, o, pod.Name)
		if local := podReady(t, rome, o.namespace, pod.Name); local.UID != pod.UID {
			t.Errorf("pod %s was replaced on rome", pod.Name)
		}
	}
	if remote := podReady(t, milan, o.remote, untouched.Name); remote.UID != untouchedRemote.UID ||
		containerRun(remote) != containerRun(untouchedRemote) {
		t.Errorf("the container of %s did not run on: %s before, %s after", untouched.Name, containerRun(untouchedRemote),
			containerRun(remote))
	}
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
	eventually(t, soon, "the peering to be Ready", func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "fc", "milan", "-o", "jsonpath={.status.outgoingPeering} {.status.authentication}")
		return result.Stdout == "Established Established", result.Stdout, result.Err
	})
}

// containerRun returns an identifier of the current run of a pod's first container, which changes
// when it restarts.
func containerRun(pod *corev1.Pod) string {
	status := pod.Status.ContainerStatuses[0]
	started := "not running"
	if status.State.Running != nil {
		started = status.State.Running.StartedAt.String()
	}
	return fmt.Sprintf("%s started %s, %d restarts", status.ContainerID, started, status.RestartCount)
}
