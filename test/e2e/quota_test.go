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

	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/test/harness"
)

// refusesPodsBeyondTheQuota creates more pods than the quota allows, without rome's scheduler.
// Milan must accept pods up to the quota, report why it refuses the other pods, and accept another
// one when an accepted pod is deleted.
func refusesPodsBeyondTheQuota(t *testing.T) {
	// Each pod requests slightly less than a third of the quota, so that exactly three fit.
	const pods, fit, percent = 6, 3, 30
	o := offloaded(t, remoteOnly)
	offers := must(milan.Federation.FederationV1alpha1().ResourceOffers("liqo-tenant-rome").List(t.Context(),
		metav1.ListOptions{}))(t)
	if len(offers.Items) != 1 {
		t.Fatalf("milan has %d offers", len(offers.Items))
	}
	granted := offers.Items[0].Spec.Resources[corev1.ResourceCPU]
	spec := podSpec("serve")
	spec.NodeName = virtualNode
	spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(granted.MilliValue()*percent/100, resource.DecimalSI),
	}
	for i := range pods {
		runPod(t, o.namespace, fmt.Sprintf("web-%d", i), spec)
	}
	taken := acceptedPods(t, o, fit)
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		if slices.Contains(taken, name) {
			continue
		}
		pod := must(rome.Kube.CoreV1().Pods(o.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
		if pod.Status.Phase != corev1.PodPending || !strings.Contains(pod.Status.Message, "cpu: ") ||
			!strings.Contains(pod.Status.Message, " left") {
			t.Errorf("pod %s is %s, with the message: %s", name, pod.Status.Phase, pod.Status.Message)
		}
		eventually(t, soon, "an event about pod "+name, func(ctx context.Context) (bool, string, error) {
			result := rome.Kubectl(ctx, "get", "events", "-n", o.namespace,
				"--field-selector=reason=QuotaExceeded,involvedObject.name="+name, "-o", "name")
			return result.Stdout != "", "", result.Err
		})
	}

	kubectl(t, rome, "delete", "pod", taken[0], "-n", o.namespace, "--timeout=110s")
	if now := acceptedPods(t, o, fit); slices.Contains(now, taken[0]) {
		t.Errorf("%s was recreated", taken[0])
	}
}

// acceptedPods waits until milan has accepted or refused each pod, and returns the names of the
// accepted ones. It fails the test unless fit pods were accepted.
func acceptedPods(t *testing.T, o offload, fit int) (taken []string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("milan to accept %d pods and refuse the others", fit),
		func(ctx context.Context) (bool, string, error) {
			shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.remote).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			taken = nil
			for _, shadow := range shadows.Items {
				taken = append(taken, shadow.Name)
			}
			if len(taken) > fit {
				t.Errorf("milan accepted %v", taken)
			}
			pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			refused := 0
			for _, pod := range pods.Items {
				if !slices.Contains(taken, pod.Name) && pod.Status.Reason == "QuotaExceeded" {
					refused++
				}
			}
			return len(taken) == fit && len(taken)+refused == len(pods.Items),
				fmt.Sprintf("%v are accepted, and %d of %d pods have a reason", taken, refused, len(pods.Items)), nil
		})
	return taken
}

// offersExtendedResources adds an extended resource to a node of milan. The virtual node must have
// the offered share of it, a pod that requests it must run on that node, and another pod must wait
// until the resource is free.
func offersExtendedResources(t *testing.T) {
	const resourceName, size, share, wanted = "e2e.example.org/accelerators", `"10"`, "9", "6"
	nodes := milan.Kube.CoreV1().Nodes()
	owners := must(nodes.List(t.Context(), metav1.ListOptions{LabelSelector: isReal}))(t).Items
	owner := owners[slices.IndexFunc(owners, func(node corev1.Node) bool { return len(node.Spec.Taints) == 0 })].Name
	announce := func(ctx context.Context, quantity string) error {
		patch := fmt.Sprintf(`{"status":{"capacity":{%[1]q:%[2]s},"allocatable":{%[1]q:%[2]s}}}`, resourceName, quantity)
		_, err := nodes.Patch(ctx, owner, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	isOffered := func(quantity string) {
		t.Helper()
		eventually(t, soon, fmt.Sprintf("node %s to have %q of %s", virtualNode, quantity, resourceName),
			func(ctx context.Context) (bool, string, error) {
				node, err := rome.Kube.CoreV1().Nodes().Get(ctx, virtualNode, metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				found, ok := node.Status.Allocatable[resourceName]
				return ok == (quantity != "") && (!ok || found.String() == quantity), show(node.Status.Allocatable), nil
			})
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := announce(ctx, "null"); err != nil {
			t.Error(err)
		}
	})
	if err := announce(t.Context(), size); err != nil {
		t.Fatal(err)
	}
	isOffered(share)

	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.Containers[0].Resources.Limits = corev1.ResourceList{resourceName: resource.MustParse(wanted)}
	runReadyPod(t, o.namespace, "first", spec)
	remote := must(milan.Kube.CoreV1().Pods(o.remote).Get(t.Context(), "first", metav1.GetOptions{}))(t)
	if requested := remote.Spec.Containers[0].Resources.Requests[resourceName]; remote.Spec.NodeName != owner ||
		requested.String() != wanted {
		t.Errorf("on milan it is on %s with %s", remote.Spec.NodeName, show(remote.Spec.Containers[0].Resources))
	}
	runPod(t, o.namespace, "second", spec)
	podThat(t, rome, o.namespace, "second", "wait for the quota", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(c.Message, resourceName)
		})
	})
	kubectl(t, rome, "delete", "pod", "first", "-n", o.namespace, "--timeout=110s")
	podReady(t, rome, o.namespace, "second")
	kubectl(t, rome, "delete", "pod", "second", "-n", o.namespace, "--timeout=110s")

	if err := announce(t.Context(), "null"); err != nil {
		t.Fatal(err)
	}
	isOffered("")
}

// isWithinQuota waits until rome's quota usage does not exceed its quota on milan.
func isWithinQuota(t *testing.T) {
	t.Helper()
	federation := milan.Federation.FederationV1alpha1()
	eventually(t, soon, "milan to report rome's quota and its usage", func(ctx context.Context) (bool, string, error) {
		offers, err := federation.ResourceOffers("liqo-tenant-rome").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		shadows, err := federation.ShadowPods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		granted, used := corev1.ResourceList{}, corev1.ResourceList{}
		for _, offer := range offers.Items {
			quota.Add(granted, offer.Spec.Resources)
		}
		for _, shadow := range shadows.Items {
			switch {
			case shadow.Status.ForeignCluster == "":
				return false, "", harness.Permanent(fmt.Errorf("shadow pod %s/%s has no origin", shadow.Namespace, shadow.Name))
			case shadow.Status.ForeignCluster == "rome" && shadow.Status.Phase == "":
				quota.Add(used, quota.Takes(&shadow.Spec.Pod, shadow.Status.AllocatedResources))
			}
		}
		if over := quota.Exceeded(granted, used); len(over) > 0 {
			return false, "", harness.Permanent(fmt.Errorf("the usage exceeds the quota: %s", quota.Sentence(over)))
		}
		return true, "", nil
	})
}
