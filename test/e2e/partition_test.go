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

// providerUnreachableForAMinute cuts rome off from milan. What runs on milan
// runs on; what happens meanwhile on either side is made up for afterwards.
func providerUnreachableForAMinute(t *testing.T) {
	o := offloaded(t, remote)
	untouched := runDeployment(t, o.namespace, "untouched", 1, podSpec("serve"))[0]
	lost := runDeployment(t, o.namespace, "lost", 1, podSpec("serve"))[0]
	unwanted := runReadyPod(t, o.namespace, "unwanted", podSpec("serve"))
	settings := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	}
	own, copies := rome.Kube.CoreV1().ConfigMaps(o.namespace), milan.Kube.CoreV1().ConfigMaps(o.twin)
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
	must(own.Create(t.Context(), settings("changes", "before"), metav1.CreateOptions{}))(t)
	must(own.Create(t.Context(), settings("goes", "before"), metav1.CreateOptions{}))(t)
	settingsAre(map[string]string{"changes": "before", "goes": "before"})
	untouchedThere := podReady(t, milan, o.twin, untouched.Name)
	lostThere := podReady(t, milan, o.twin, lost.Name)

	cut(t)
	since := time.Now()

	// The consumer's wishes wait, and so does its node.
	kubectl(t, rome, "delete", "pod", "unwanted", "-n", o.namespace, "--wait=false")
	must(own.Update(t.Context(), settings("changes", "after"), metav1.UpdateOptions{}))(t)
	must(own.Create(t.Context(), settings("comes", "after"), metav1.CreateOptions{}))(t)
	kubectl(t, rome, "delete", "configmap", "goes", "-n", o.namespace)
	eventually(t, outage, "node "+virtualNode+" to be NotReady", func(ctx context.Context) (bool, string, error) {
		node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return !nodeReady(node), show(node.Status.Conditions), nil
	})
	t.Logf("the node was NotReady %s after the cut", time.Since(since).Round(time.Second))

	// The provider keeps its word alone.
	if err := milan.Kube.CoreV1().Pods(o.twin).Delete(t.Context(), lostThere.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	podThat(t, milan, o.twin, lost.Name, "be made again by milan alone", func(p *corev1.Pod) bool { return p.UID != lostThere.UID && isReady(p) })

	err := harness.Consistently(t.Context(), time.Until(since.Add(outage)), "the pod runs on, on milan as on rome", func(ctx context.Context) (bool, string, error) {
		there, err := milan.Kube.CoreV1().Pods(o.twin).Get(ctx, untouched.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		here, err := rome.Kube.CoreV1().Pods(o.namespace).Get(ctx, untouched.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		same := there.UID == untouchedThere.UID && here.UID == untouched.UID && here.DeletionTimestamp == nil &&
			isReady(there) && here.Status.Phase == corev1.PodRunning && containerRun(there) == containerRun(untouchedThere)
		return same, podState(there) + "; " + podState(here), nil
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
	t.Logf("the node was Ready %s after the healing", time.Since(healed).Round(time.Second))
	settingsAre(map[string]string{"changes": "after", "comes": "after"})
	podGone(t, rome, o.namespace, unwanted.Name)
	podGone(t, milan, o.twin, unwanted.Name)
	for _, pod := range []corev1.Pod{untouched, lost} {
		isSameOnBothSides(t, o, pod.Name)
		if here := podReady(t, rome, o.namespace, pod.Name); here.UID != pod.UID {
			t.Errorf("pod %s was made anew on rome", pod.Name)
		}
	}
	if there := podReady(t, milan, o.twin, untouched.Name); there.UID != untouchedThere.UID || containerRun(there) != containerRun(untouchedThere) {
		t.Errorf("the container of %s did not run on: %s before, %s after", untouched.Name, containerRun(untouchedThere), containerRun(there))
	}
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
	eventually(t, soon, "the peering to be Ready", func(ctx context.Context) (bool, string, error) {
		result := rome.Kubectl(ctx, "get", "fc", "milan", "-o", "jsonpath={.status.outgoingPeering} {.status.authentication}")
		return result.Stdout == "Established Established", result.Stdout, result.Err
	})
}

// containerRun tells one run of a pod's first container from another.
func containerRun(pod *corev1.Pod) string {
	status := pod.Status.ContainerStatuses[0]
	started := "not running"
	if status.State.Running != nil {
		started = status.State.Running.StartedAt.String()
	}
	return fmt.Sprintf("%s started %s, %d restarts", status.ContainerID, started, status.RestartCount)
}
