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

// acceptsNoMoreThanIsGranted has rome send more to milan than it was granted,
// past its scheduler, which would keep it within the virtual node: milan takes
// what fits, says why it takes no more, and takes the next when one has gone.
func acceptsNoMoreThanIsGranted(t *testing.T) {
	// Each takes a bit less than a third, so that three fit and no fourth.
	const pods, fit, percent = 6, 3, 30
	o := offloaded(t, remote)
	offers := must(milan.Federation.FederationV1alpha1().ResourceOffers("liqo-tenant-rome").List(t.Context(), metav1.ListOptions{}))(t)
	if len(offers.Items) != 1 {
		t.Fatalf("milan makes %d offers", len(offers.Items))
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
	taken := sortedOut(t, o, fit)
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		if slices.Contains(taken, name) {
			continue
		}
		pod := must(rome.Kube.CoreV1().Pods(o.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
		if pod.Status.Phase != corev1.PodPending || !strings.Contains(pod.Status.Message, "cpu: ") || !strings.Contains(pod.Status.Message, " left") {
			t.Errorf("pod %s is %s, and says: %s", name, pod.Status.Phase, pod.Status.Message)
		}
		eventually(t, soon, "an event to say why pod "+name+" waits", func(ctx context.Context) (bool, string, error) {
			result := rome.Kubectl(ctx, "get", "events", "-n", o.namespace, "--field-selector=reason=GrantExceeded,involvedObject.name="+name, "-o", "name")
			return result.Stdout != "", "", result.Err
		})
	}

	kubectl(t, rome, "delete", "pod", taken[0], "-n", o.namespace, "--timeout=110s")
	if now := sortedOut(t, o, fit); slices.Contains(now, taken[0]) {
		t.Errorf("%s came back", taken[0])
	}
}

// sortedOut waits until each pod on rome is taken by milan or refused for want of
// room, and so many are taken, which it returns.
func sortedOut(t *testing.T, o offload, fit int) (taken []string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("milan to take %d pods and refuse the others", fit), func(ctx context.Context) (bool, string, error) {
		shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.twin).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		taken = nil
		for _, shadow := range shadows.Items {
			taken = append(taken, shadow.Name)
		}
		if len(taken) > fit {
			t.Errorf("milan took %v", taken)
		}
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		told := 0
		for _, pod := range pods.Items {
			if !slices.Contains(taken, pod.Name) && pod.Status.Reason == "GrantExceeded" {
				told++
			}
		}
		return len(taken) == fit && len(taken)+told == len(pods.Items), fmt.Sprintf("%v are taken, and %d of %d pods were told why they wait", taken, told, len(pods.Items)), nil
	})
	return taken
}

// offersExtendedResources has a node of milan announce a resource that Kubernetes
// knows nothing of: the virtual node has milan's share of it, a pod that asks for
// some runs where it is, and the next one waits until it is free again.
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
	isLent := func(quantity string) {
		t.Helper()
		eventually(t, soon, fmt.Sprintf("node %s to have %q of %s", virtualNode, quantity, resourceName), func(ctx context.Context) (bool, string, error) {
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
	isLent(share)

	o := offloaded(t, remote)
	spec := podSpec("serve")
	spec.Containers[0].Resources.Limits = corev1.ResourceList{resourceName: resource.MustParse(wanted)}
	runReadyPod(t, o.namespace, "first", spec)
	there := must(milan.Kube.CoreV1().Pods(o.twin).Get(t.Context(), "first", metav1.GetOptions{}))(t)
	if asked := there.Spec.Containers[0].Resources.Requests[resourceName]; there.Spec.NodeName != owner || asked.String() != wanted {
		t.Errorf("on milan it is on %s, and asks for %s", there.Spec.NodeName, show(there.Spec.Containers[0].Resources))
	}
	runPod(t, o.namespace, "second", spec)
	podThat(t, rome, o.namespace, "second", "wait for room", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, resourceName)
		})
	})
	kubectl(t, rome, "delete", "pod", "first", "-n", o.namespace, "--timeout=110s")
	podReady(t, rome, o.namespace, "second")
	kubectl(t, rome, "delete", "pod", "second", "-n", o.namespace, "--timeout=110s")

	if err := announce(t.Context(), "null"); err != nil {
		t.Fatal(err)
	}
	isLent("")
}

// isWithinGrant sees to it that rome uses no more of milan than it was granted.
func isWithinGrant(t *testing.T) {
	t.Helper()
	federation := milan.Federation.FederationV1alpha1()
	eventually(t, soon, "milan to tell what it has granted rome, and what of it is used", func(ctx context.Context) (bool, string, error) {
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
				return false, "", harness.Permanent(fmt.Errorf("shadow pod %s/%s does not say whose it is", shadow.Namespace, shadow.Name))
			case shadow.Status.ForeignCluster == "rome" && shadow.Status.Phase == "":
				quota.Add(used, quota.Takes(&shadow.Spec.Pod, shadow.Status.AllocatedResources))
			}
		}
		if over := quota.Exceeded(granted, used); len(over) > 0 {
			return false, "", harness.Permanent(fmt.Errorf("more is used than granted: %s", quota.Sentence(over)))
		}
		return true, "", nil
	})
}
