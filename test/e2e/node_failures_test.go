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

// briefly is the number of seconds that pods of these tests tolerate a lost node.
const briefly = 5

// shortTolerations returns tolerations of a lost node for briefly seconds.
func shortTolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](briefly)})
	}
	return all
}

// virtualNodeIsUnreachableForLong partitions the clusters until rome evicts a pod on milan and its
// replacement runs on rome. The evicted pod must stay terminating while milan is unreachable,
// because rome cannot observe whether its containers have stopped. Afterwards it must be deleted,
// and the replacement stay.
func virtualNodeIsUnreachableForLong(t *testing.T) {
	o := offloaded(t, v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote})
	spec := preferringTheVirtualNode()
	spec.Tolerations = shortTolerations()
	lost := runDeployment(t, o.namespace, "web", 1, spec)[0]
	if lost.Spec.NodeName != virtualNode {
		t.Fatalf("pod %s is on %s although it prefers %s", lost.Name, lost.Spec.NodeName, virtualNode)
	}
	run := containerRun(podReady(t, milan, o.remote, lost.Name))
	watched := watchPods(t, o)

	cut(t)
	since := time.Now()
	podThat(t, rome, o.namespace, lost.Name, "be evicted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	t.Logf("the pod was evicted %s after the cut", time.Since(since).Round(time.Second))
	var replacement corev1.Pod
	eventually(t, soon, "another pod to be Ready on a node of rome", func(ctx context.Context) (bool, string, error) {
		pods, err := rome.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, "", err
		}
		saw := ""
		for _, pod := range pods.Items {
			if pod.UID != lost.UID && pod.Spec.NodeName != virtualNode && isReady(&pod) {
				replacement = pod
				return true, "", nil
			}
			saw += podState(&pod) + "; "
		}
		return false, saw, nil
	})
	if local := must(rome.Kube.CoreV1().Pods(o.namespace).Get(t.Context(), lost.Name,
		metav1.GetOptions{}))(t); local.UID != lost.UID {
		t.Errorf("pod %s was replaced", lost.Name)
	}
	if now := containerRun(podReady(t, milan, o.remote, lost.Name)); now != run {
		t.Errorf("the pod on milan was disturbed: %s before, %s after", run, now)
	}

	if err := playground.Heal(t.Context(), "rome", "milan"); err != nil {
		t.Fatal(err)
	}
	podGone(t, rome, o.namespace, lost.Name)
	podGone(t, milan, o.remote, lost.Name)
	noShadowPods(t, o)
	if stays := podsReady(t, rome, o.namespace, "app=web", 1)[0]; stays.UID != replacement.UID {
		t.Errorf("pod %s replaced %s, which ran on rome", stays.Name, replacement.Name)
	}
	nodeIsReady(t, rome, virtualNode)
	// The evicted pod may have been reported as terminated.
	watched.ranOnce(t, 0, lost.UID)
}

// noShadowPods waits until a remote namespace has no ShadowPods.
func noShadowPods(t *testing.T, o offload) {
	t.Helper()
	eventually(t, soon, "no shadow pods in "+o.remote, func(ctx context.Context) (bool, string, error) {
		shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.remote).List(ctx, metav1.ListOptions{})
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

// providerNodeFails stops the kubelet of a node of milan that runs two pods of rome, and milan
// evicts both. The pod of a Deployment is replaced by another one. The pod without a controller
// must be recreated on another node after milan's administrator taints the node as out of service,
// with the same local pod on rome. At the end the node returns.
func providerNodeFails(t *testing.T) {
	defer offersPercent(t, 90)
	defer opensEveryNode(t)()
	dies, others := nodeWithoutComponents(t, milan)
	patchVirtualNode(t, v1alpha1.OffloadingPatch{Tolerations: shortTolerations()})
	o := offloaded(t, remoteOnly)
	t.Cleanup(func() {
		for _, other := range others {
			milan.Kubectl(context.WithoutCancel(t.Context()), "uncordon", other)
		}
	})
	for _, other := range others {
		kubectl(t, milan, "cordon", other)
	}
	owned := runDeployment(t, o.namespace, "owned", 1, podSpec("serve"))[0]
	if on := podReady(t, milan, o.remote, owned.Name).Spec.NodeName; on != dies {
		t.Fatalf("on milan, the Deployment's pod is on %s, want %s", on, dies)
	}
	before := runReadyPod(t, o.namespace, "web", podSpec("serve"))
	remote := podThat(t, milan, o.remote, "web", "be evicted soon from a node that is lost", func(p *corev1.Pod) bool {
		return isReady(p) && !slices.ContainsFunc(shortTolerations(), func(wanted corev1.Toleration) bool {
			return !slices.ContainsFunc(p.Spec.Tolerations, func(has corev1.Toleration) bool {
				return has.Key == wanted.Key && ptr.Equal(has.TolerationSeconds, wanted.TolerationSeconds)
			})
		})
	})
	if remote.Spec.NodeName != dies {
		t.Fatalf("on milan, the pod is on %s, want %s", remote.Spec.NodeName, dies)
	}
	for _, other := range others {
		kubectl(t, milan, "uncordon", other)
	}

	outOfService := corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	comesBack := func(ctx context.Context) error {
		if err := playground.Up(ctx, []string{milan.Name}); err != nil {
			return err
		}
		// The taint is removed even if the test failed.
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
	podThat(t, milan, o.remote, "web", "be evicted",
		func(p *corev1.Pod) bool { return p.UID == remote.UID && p.DeletionTimestamp != nil })
	t.Logf("the pod was evicted %s after its node failed", time.Since(since).Round(time.Second))
	podThat(t, rome, o.namespace, "web", "not be Ready",
		func(p *corev1.Pod) bool { return p.UID == before.UID && !isReady(p) })

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
	t.Logf("the Deployment had another pod %s after the node failed", time.Since(since).Round(time.Second))
	if on := podReady(t, milan, o.remote, another.Name).Spec.NodeName; on == dies {
		t.Errorf("the Deployment's other pod is on %s, which failed", on)
	}
	// The first pod must stay terminating, because it may still run.
	podThat(t, rome, o.namespace, owned.Name, "be terminating",
		func(p *corev1.Pod) bool { return p.UID == owned.UID && p.DeletionTimestamp != nil })

	kubectl(t, milan, "taint", "node", dies, outOfService)
	podGone(t, rome, o.namespace, owned.Name)
	podGone(t, milan, o.remote, owned.Name)
	again := podThat(t, milan, o.remote, "web", "be recreated",
		func(p *corev1.Pod) bool { return p.UID != remote.UID && isReady(p) })
	t.Logf("it was Ready again %s after its node failed", time.Since(since).Round(time.Second))
	if again.Spec.NodeName == dies {
		t.Errorf("it was recreated on %s, which failed", dies)
	}
	local := podThat(t, rome, o.namespace, "web", "be Ready again", isReady)
	if local.UID != before.UID || local.DeletionTimestamp != nil {
		t.Errorf("the pod was replaced on rome, or terminates: %s", podState(local))
	}
	if got, want := restarts(local), restarts(before)+1; got != want {
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
	if now := podReady(t, milan, o.remote, "web"); now.UID != again.UID || containerRun(now) != containerRun(again) {
		t.Errorf("the pod was disturbed when the node returned: %s before, %s after", containerRun(again), containerRun(now))
	}
	isSameOnBothSides(t, o, "web")
	runReadyPod(t, o.namespace, "after", podSpec("serve"))
}

// nodeWithoutComponents returns the name of a node that runs no pod of the installation, and the
// names of all other nodes.
func nodeWithoutComponents(t *testing.T, c *harness.Cluster) (found string, others []string) {
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
		t.Fatalf("every node of %s runs something of the installation, or it is the only one", c.Name)
	}
	return found, others
}

func processesOn(ctx context.Context, node, program string) ([]harness.Process, error) {
	processes, err := playground.Processes(ctx, node)
	return slices.DeleteFunc(processes, func(p harness.Process) bool { return p.Program() != program }), err
}

// endsOn kills all processes of a program on a node, which must be count processes, and waits until
// they have ended. The processes must not be restarted by anything.
func endsOn(t *testing.T, node, program string, count int) {
	t.Helper()
	running := func(count int) []harness.Process {
		t.Helper()
		var found []harness.Process
		eventually(t, soon, fmt.Sprintf("%d processes %s on %s", count, program, node),
			func(ctx context.Context) (bool, string, error) {
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
