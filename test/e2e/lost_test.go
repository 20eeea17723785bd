// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// briefly is how many seconds pods of these tests stay on a node that is lost.
const briefly = 5

// notForLong tolerates the loss of a node briefly.
func notForLong() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](briefly)})
	}
	return all
}

// theVirtualNodeIsLostForLong cuts rome off from milan until rome gives up the
// pod there, and has another one at home. Nobody on rome can know that the first
// one has ended, so it stays until milan is back; then it goes, and the second one
// stays.
func theVirtualNodeIsLostForLong(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	spec := preferringTheVirtualNode()
	spec.Tolerations = notForLong()
	lost := runDeployment(t, o.namespace, "web", 1, spec)[0]
	if lost.Spec.NodeName != virtualNode {
		t.Fatalf("pod %s is on %s although it prefers %s", lost.Name, lost.Spec.NodeName, virtualNode)
	}
	run := containerRun(podReady(t, milan, o.twin, lost.Name))
	watched := watchPods(t, o)

	cut(t)
	since := time.Now()
	podThat(t, rome, o.namespace, lost.Name, "be evicted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	t.Logf("the pod was evicted %s after the cut", time.Since(since).Round(time.Second))
	var home corev1.Pod
	eventually(t, soon, "another pod to be Ready on a node of rome", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, "", err
		}
		saw := ""
		for _, pod := range pods.Items {
			if pod.UID != lost.UID && pod.Spec.NodeName != virtualNode && isReady(&pod) {
				home = pod
				return true, "", nil
			}
			saw += podState(&pod) + "; "
		}
		return false, saw, nil
	})
	if here := must(rome.Kube.CoreV1().Pods(o.namespace).Get(t.Context(), lost.Name, metav1.GetOptions{}))(t); here.UID != lost.UID {
		t.Errorf("pod %s is another one now", lost.Name)
	}
	if now := containerRun(podReady(t, milan, o.twin, lost.Name)); now != run {
		t.Errorf("the pod on milan was disturbed: %s before, %s after", run, now)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	podGone(t, rome, o.namespace, lost.Name)
	podGone(t, milan, o.twin, lost.Name)
	noShadowPods(t, o)
	if stays := podsReady(t, rome, o.namespace, "app=web", 1)[0]; stays.UID != home.UID {
		t.Errorf("pod %s took the place of %s, which ran at home", stays.Name, home.Name)
	}
	nodeIsReady(t, rome, virtualNode)
	// It may have told how it ended.
	watched.ranOnce(t, 0, lost.UID)
}

// noShadowPods waits until a twin has no shadow pods.
func noShadowPods(t *testing.T, o offload) {
	t.Helper()
	eventually(t, soon, "no shadow pods in "+o.twin, func(ctx context.Context) (bool, string, error) {
		shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.twin).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		return len(shadows.Items) == 0, show(shadows.Items), nil
	})
}

func nodeIsReady(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	eventually(t, soon, "node "+name+" to be Ready", func(ctx context.Context) (bool, string, error) {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return nodeReady(node), show(node.Status.Conditions), nil
	})
}

// aNodeOfTheProviderDies ends the kubelet of a node of milan, and what two pods
// of rome run there. Kubernetes on milan evicts them. One is a Deployment's, which
// makes another one, as it would at home. The other one nobody would make
// again; once milan's administrator has said that the node is out of service, and
// nobody fears any more that it runs on there, it is made again on another node,
// and to rome it is the same pod all the time. Then the node comes back.
func aNodeOfTheProviderDies(t *testing.T) {
	defer lendsPercent(t, 90)
	defer opensEveryNode(t)()
	dies, others := nodeWithoutOurs(t, milan)
	patchVirtualNode(t, v1alpha1.OffloadingPatch{Tolerations: notForLong()})
	o := offloaded(t, remote)
	t.Cleanup(func() {
		for _, other := range others {
			milan.Kubectl(context.WithoutCancel(t.Context()), "uncordon", other)
		}
	})
	for _, other := range others {
		kubectl(t, milan, "cordon", other)
	}
	owned := runDeployment(t, o.namespace, "owned", 1, podSpec("serve"))[0]
	if on := podReady(t, milan, o.twin, owned.Name).Spec.NodeName; on != dies {
		t.Fatalf("on milan, the Deployment's pod is on %s, want %s", on, dies)
	}
	before := runReadyPod(t, o.namespace, "web", podSpec("serve"))
	there := podThat(t, milan, o.twin, "web", "be evicted soon from a node that is lost", func(p *corev1.Pod) bool {
		return isReady(p) && !slices.ContainsFunc(notForLong(), func(wanted corev1.Toleration) bool {
			return !slices.ContainsFunc(p.Spec.Tolerations, func(has corev1.Toleration) bool {
				return has.Key == wanted.Key && ptr.Equal(has.TolerationSeconds, wanted.TolerationSeconds)
			})
		})
	})
	if there.Spec.NodeName != dies {
		t.Fatalf("on milan, the pod is on %s, want %s", there.Spec.NodeName, dies)
	}
	for _, other := range others {
		kubectl(t, milan, "uncordon", other)
	}

	outOfService := corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	comesBack := func(ctx context.Context) error {
		if err := playground.Up(ctx, []string{milan.Name}); err != nil {
			return err
		}
		// The taint is there unless this failed before.
		milan.Kubectl(ctx, "taint", "node", dies, outOfService+"-")
		return nil
	}
	defer func() {
		collect(t)
		if err := comesBack(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	endsOn(t, dies, "kubelet", 1)
	endsOn(t, dies, "federation-tester", 2)
	since := time.Now()
	podThat(t, milan, o.twin, "web", "be evicted", func(p *corev1.Pod) bool { return p.UID == there.UID && p.DeletionTimestamp != nil })
	t.Logf("the pod was evicted %s after its node had died", time.Since(since).Round(time.Second))
	podThat(t, rome, o.namespace, "web", "not be Ready", func(p *corev1.Pod) bool { return p.UID == before.UID && !isReady(p) })

	var another corev1.Pod
	eventually(t, soon, "the Deployment to have another pod", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=owned"})
		if err != nil {
			return false, "", err
		}
		saw := ""
		for _, pod := range pods.Items {
			if pod.UID != owned.UID && isReady(&pod) {
				another = pod
				return true, "", nil
			}
			saw += podState(&pod) + "; "
		}
		return false, saw, nil
	})
	t.Logf("the Deployment had another pod %s after the node had died", time.Since(since).Round(time.Second))
	if on := podReady(t, milan, o.twin, another.Name).Spec.NodeName; on == dies {
		t.Errorf("the Deployment's other pod is on %s, which is dead", on)
	}
	// Whether the first one still runs, nobody can tell.
	podThat(t, rome, o.namespace, owned.Name, "be ending", func(p *corev1.Pod) bool { return p.UID == owned.UID && p.DeletionTimestamp != nil })

	kubectl(t, milan, "taint", "node", dies, outOfService)
	podGone(t, rome, o.namespace, owned.Name)
	podGone(t, milan, o.twin, owned.Name)
	again := podThat(t, milan, o.twin, "web", "be made again", func(p *corev1.Pod) bool { return p.UID != there.UID && isReady(p) })
	t.Logf("it was Ready again %s after its node had died", time.Since(since).Round(time.Second))
	if again.Spec.NodeName == dies {
		t.Errorf("it was made again on %s, which is dead", dies)
	}
	here := podThat(t, rome, o.namespace, "web", "be Ready again", isReady)
	if here.UID != before.UID || here.DeletionTimestamp != nil {
		t.Errorf("the pod is another one on rome, or going: %s", podState(here))
	}
	if got, want := restarts(here), restarts(before)+1; got != want {
		t.Errorf("%d restarts are counted, want %d", got, want)
	}
	isSameOnBothSides(t, o, "web")

	if err := comesBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodeIsReady(t, milan, dies)
	eventually(t, soon, "nothing of the pod to be left on "+dies, func(ctx context.Context) (bool, string, error) {
		left, err := processesOn(ctx, dies, "federation-tester")
		return len(left) == 0, show(left), err
	})
	if now := podReady(t, milan, o.twin, "web"); now.UID != again.UID || containerRun(now) != containerRun(again) {
		t.Errorf("the pod was disturbed when the node came back: %s before, %s after", containerRun(again), containerRun(now))
	}
	isSameOnBothSides(t, o, "web")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
}

// nodeWithoutOurs finds a node that runs nothing of the installation, and names
// the others.
func nodeWithoutOurs(t *testing.T, c *harness.Cluster) (found string, others []string) {
	t.Helper()
	pods := must(c.Kube.CoreV1().Pods(harness.Namespace).List(t.Context(), metav1.ListOptions{}))(t)
	for _, node := range realNodes(t, c) {
		if found == "" && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == node.Name }) {
			found = node.Name
		} else {
			others = append(others, node.Name)
		}
	}
	if found == "" || len(others) == 0 {
		t.Fatalf("every node of %s runs something of the installation, or there is one alone", c.Name)
	}
	return found, others
}

func processesOn(ctx context.Context, node, program string) ([]harness.Process, error) {
	processes, err := playground.Processes(ctx, node)
	return slices.DeleteFunc(processes, func(p harness.Process) bool { return p.Program() != program }), err
}

// endsOn ends the processes on a node that run a program, of which there have to
// be so many, and waits until they are gone: nothing starts them again.
func endsOn(t *testing.T, node, program string, count int) {
	t.Helper()
	running := func(count int) []harness.Process {
		t.Helper()
		var found []harness.Process
		eventually(t, soon, fmt.Sprintf("%d processes %s on %s", count, program, node), func(ctx context.Context) (bool, string, error) {
			var err error
			found, err = processesOn(ctx, node, program)
			return len(found) == count, show(found), err
		})
		return found
	}
	for _, process := range running(count) {
		if err := playground.Kill(t.Context(), node, process); err != nil {
			t.Fatal(err)
		}
	}
	running(0)
}
