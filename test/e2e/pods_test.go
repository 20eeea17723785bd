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

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// seen is the part of a pod's status that is equal on both clusters.
type seen struct {
	Phase      corev1.PodPhase
	Reason     string
	Containers []corev1.ContainerStatus
	Conditions map[corev1.PodConditionType]corev1.ConditionStatus
}

func comparableStatus(pod *corev1.Pod) seen {
	s := seen{Phase: pod.Status.Phase, Reason: pod.Status.Reason,
		Conditions: map[corev1.PodConditionType]corev1.ConditionStatus{}}
	for _, c := range pod.Status.ContainerStatuses {
		// A local pod counts lost remote pods as restarts. Volume mounts, users and allocations are
		// specific to milan's node.
		c.RestartCount, c.VolumeMounts, c.User, c.AllocatedResourcesStatus = 0, nil, nil, nil
		// Admission on milan sets missing requests to zero, because of the quota.
		c.AllocatedResources = nonZero(c.AllocatedResources)
		if c.Resources != nil {
			c.Resources = &corev1.ResourceRequirements{Requests: nonZero(c.Resources.Requests),
				Limits: nonZero(c.Resources.Limits)}
		}
		s.Containers = append(s.Containers, c)
	}
	slices.SortFunc(s.Containers, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized:
			s.Conditions[c.Type] = c.Status
		}
	}
	return s
}

// nonZero returns the resources whose quantity is not zero.
func nonZero(all corev1.ResourceList) corev1.ResourceList {
	var some corev1.ResourceList
	for name, amount := range all {
		if !amount.IsZero() {
			if some == nil {
				some = corev1.ResourceList{}
			}
			some[name] = amount
		}
	}
	return some
}

// isSameOnBothSides waits until the status of a local pod equals the status of its remote pod.
func isSameOnBothSides(t *testing.T, o offload, name string) {
	t.Helper()
	eventually(t, soon, "the status of "+name+" to be the same on both sides",
		func(ctx context.Context) (bool, string, error) {
			local, err := rome.Kube.CoreV1().Pods(o.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			remote, err := milan.Kube.CoreV1().Pods(o.remote).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			diff := cmp.Diff(comparableStatus(remote), comparableStatus(local))
			return diff == "", "(-milan +rome):\n" + diff, nil
		})
}

func reflectsPodStatus(t *testing.T) {
	o := offloaded(t, remoteOnly)
	spec := podSpec("serve")
	spec.InitContainers = []corev1.Container{{Name: "first", Image: testerImage, ImagePullPolicy: corev1.PullNever,
		Args: []string{"print", "ready to go"}}}
	spec.Containers = append(spec.Containers,
		corev1.Container{Name: "second", Image: testerImage, ImagePullPolicy: corev1.PullNever,
			Args: []string{"serve", ":8081"}})
	created := runReadyPod(t, o.namespace, "web", spec)
	isSameOnBothSides(t, o, "web")

	requestPod(t, o.remote, "web", "exit", "code", "3")
	restarted := podThat(t, rome, o.namespace, "web", "show the restart", func(p *corev1.Pod) bool {
		first := p.Status.ContainerStatuses
		return isReady(p) && len(first) == 2 && first[0].RestartCount == 1
	})
	if last := restarted.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 {
		t.Errorf("the last state of the container is %v, want exit code 3", last)
	}
	if restarted.UID != created.UID {
		t.Error("the pod was replaced on rome")
	}
	isSameOnBothSides(t, o, "web")

	runPod(t, o.namespace, "unknown-image", func() corev1.PodSpec {
		spec := podSpec()
		spec.Containers[0].Image = "liqo.io/nothing-of-that-name:dev"
		return spec
	}())
	podThat(t, rome, o.namespace, "unknown-image", "report that the image is missing", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImageNeverPull"
	})

	// If a policy of milan refuses the remote pod, its local pod reports the reason.
	forbidden := podSpec("serve")
	forbidden.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	runPod(t, o.namespace, "forbidden", forbidden)
	podThat(t, rome, o.namespace, "forbidden", "report why it does not run", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && (p.Status.Reason != "" || p.Status.Message != "")
	})
}

func deletesPodsOnBothClusters(t *testing.T) {
	o := offloaded(t, remoteOnly)
	before := runDeployment(t, o.namespace, "web", 2, podSpec("serve"))

	// If a local pod is deleted, its remote pod ends, and the Deployment creates a new local pod.
	if err := rome.Kube.CoreV1().Pods(o.namespace).Delete(t.Context(), before[0].Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	podGone(t, milan, o.remote, before[0].Name)
	podGone(t, rome, o.namespace, before[0].Name)
	podsReady(t, rome, o.namespace, "app=web", 2)

	// If a remote pod is deleted, it is recreated while its local pod exists.
	victim := must(milan.Kube.CoreV1().Pods(o.remote).Get(t.Context(), before[1].Name, metav1.GetOptions{}))(t)
	if err := milan.Kube.CoreV1().Pods(o.remote).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	podThat(t, milan, o.remote, victim.Name, "be recreated",
		func(p *corev1.Pod) bool { return p.UID != victim.UID && isReady(p) })
	isSameOnBothSides(t, o, victim.Name)
	if local := podReady(t, rome, o.namespace, victim.Name); local.UID != before[1].UID {
		t.Error("the pod was replaced on rome as well")
	}

	// If a local pod is deleted by force, its remote pod is deleted, too.
	kubectl(t, rome, "delete", "pod", victim.Name, "-n", o.namespace, "--grace-period=0", "--force")
	podGone(t, milan, o.remote, victim.Name)

	kubectl(t, rome, "delete", "deployment", "web", "-n", o.namespace)
	eventually(t, soon, "all pods to be gone on milan", func(ctx context.Context) (bool, string, error) {
		pods, err := milan.Kube.CoreV1().Pods(o.remote).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		shadows, err := milan.Federation.FederationV1alpha1().ShadowPods(o.remote).List(ctx, metav1.ListOptions{})
		return len(pods.Items) == 0 && err == nil && len(shadows.Items) == 0, fmt.Sprintf("%d pods", len(pods.Items)), err
	})
}

func jobsRunExactlyOnce(t *testing.T) {
	o := offloaded(t, remoteOnly)
	watched := watchPods(t, o)
	const completions = 6
	spec := podSpec("print", "done")
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](3), BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: spec},
		},
	}
	must(rome.Kube.BatchV1().Jobs(o.namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	eventually(t, soon, "the job to be complete", func(ctx context.Context) (bool, string, error) {
		job, err := rome.Kube.BatchV1().Jobs(o.namespace).Get(ctx, "once", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		complete := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		})
		return complete && job.Status.Succeeded == completions, show(job.Status), nil
	})

	failing := podSpec("exit", "7")
	failing.RestartPolicy = corev1.RestartPolicyNever
	runPod(t, o.namespace, "fails", failing)
	failed := podThat(t, rome, o.namespace, "fails", "fail",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if terminated := failed.Status.ContainerStatuses[0].State.Terminated; terminated == nil || terminated.ExitCode != 7 {
		t.Errorf("the failed container shows %v, want exit code 7", terminated)
	}
	// A terminated local pod does not change if its remote pod is deleted.
	if err := milan.Kube.CoreV1().Pods(o.remote).Delete(t.Context(), "fails", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	podGone(t, milan, o.remote, "fails")
	runReadyPod(t, o.namespace, "later", podSpec("serve"))
	if again := podThat(t, rome, o.namespace, "fails", "stay failed",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }); again.UID != failed.UID {
		t.Error("the failed pod was replaced")
	}
	watched.ranOnce(t, completions+1)
}

// reportsHowADeletedPodEnded deletes a pod of a Job that succeeds within its grace period. The Job
// must complete.
func reportsHowADeletedPodEnded(t *testing.T) {
	o := offloaded(t, remoteOnly)
	watched := watchPods(t, o)
	spec := podSpec("serve")
	spec.RestartPolicy = corev1.RestartPolicyNever
	must(rome.Kube.BatchV1().Jobs(o.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "succeeds"},
		Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](0), PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{}))(t)
	pod := podsReady(t, rome, o.namespace, batchv1.JobNameLabel+"=succeeds", 1)[0]
	kubectl(t, rome, "delete", "pod", pod.Name, "-n", o.namespace)
	eventually(t, soon, "the job to be complete", func(ctx context.Context) (bool, string, error) {
		job, err := rome.Kube.BatchV1().Jobs(o.namespace).Get(ctx, "succeeds", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		if job.Status.Failed > 0 {
			return false, "", harness.Permanent(fmt.Errorf("its pod failed: %s", show(job.Status)))
		}
		return job.Status.Succeeded == 1, show(job.Status), nil
	})
	podGone(t, milan, o.remote, pod.Name)
	eventually(t, soon, "its shadow pod to be gone", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Federation.FederationV1alpha1().ShadowPods(o.remote).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err), nil
	})
	watched.ranOnce(t, 1)
}

// gracePeriodsReachTheProvider deletes a pod with a grace period, and again with a shorter one. The
// remote pod must have both.
func gracePeriodsReachTheProvider(t *testing.T) {
	o := offloaded(t, remoteOnly)
	runPod(t, o.namespace, "stubborn", podSpec("linger"))
	podThat(t, rome, o.namespace, "stubborn", "run",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	kubectl(t, rome, "delete", "pod", "stubborn", "-n", o.namespace, "--grace-period=300", "--wait=false")
	podThat(t, milan, o.remote, "stubborn", "have five minutes to end", func(p *corev1.Pod) bool {
		return ptr.Deref(p.DeletionGracePeriodSeconds, 0) == 300
	})
	kubectl(t, rome, "delete", "pod", "stubborn", "-n", o.namespace, "--grace-period=1", "--wait=false")
	podGone(t, milan, o.remote, "stubborn")
	podGone(t, rome, o.namespace, "stubborn")
}

// watchedPods records the pods of an offloaded namespace and of its remote namespace.
type watchedPods struct {
	o       offload
	stopped chan struct{}
	// complaints lists pods whose terminal phase changed, and local pods with a second remote pod.
	// Only the goroutine of the watch accesses the fields until stopped is closed.
	complaints []string
	finished   map[types.UID]corev1.PodPhase
	origins    map[string]types.UID
	cancel     context.CancelFunc
}

// watchPods starts to record pods. ranOnce stops it.
func watchPods(t *testing.T, o offload) *watchedPods {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watchedPods{o: o, stopped: make(chan struct{}), finished: map[types.UID]corev1.PodPhase{},
		origins: map[string]types.UID{}, cancel: cancel}
	local := must(rome.Kube.CoreV1().Pods(o.namespace).Watch(ctx, metav1.ListOptions{}))(t)
	remote := must(milan.Kube.CoreV1().Pods(o.remote).Watch(ctx, metav1.ListOptions{}))(t)
	go func() {
		defer close(w.stopped)
		defer local.Stop()
		defer remote.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-local.ResultChan():
				w.see(event, open, w.seeLocal)
			case event, open := <-remote.ResultChan():
				w.see(event, open, w.seeRemote)
			}
		}
	}()
	return w
}

func (w *watchedPods) see(event watch.Event, open bool, see func(*corev1.Pod)) {
	pod, isPod := event.Object.(*corev1.Pod)
	switch {
	case isPod:
		see(pod)
	case !open || event.Type == watch.Error:
		w.complaints = append(w.complaints, fmt.Sprintf("a watch ended early: %v", event.Object))
		w.cancel()
	}
}

func (w *watchedPods) seeLocal(pod *corev1.Pod) {
	before, finished := w.finished[pod.UID]
	now := pod.Status.Phase
	if finished && now != before {
		w.complaints = append(w.complaints, fmt.Sprintf("pod %s on rome went from %s to %s", pod.Name, before, now))
	}
	if now == corev1.PodSucceeded || now == corev1.PodFailed {
		w.finished[pod.UID] = now
	}
}

func (w *watchedPods) seeRemote(pod *corev1.Pod) {
	origin := pod.Annotations[v1alpha1.AnnotationOriginUID]
	if origin == "" {
		w.complaints = append(w.complaints, fmt.Sprintf("pod %s on milan has no origin", pod.Name))
		return
	}
	if first, ok := w.origins[origin]; ok && first != pod.UID {
		w.complaints = append(w.complaints,
			fmt.Sprintf("pod %s was created on milan twice, as %s and %s", pod.Name, first, pod.UID))
		return
	}
	w.origins[origin] = pod.UID
}

// ranOnce fails the test unless exactly count local pods, without those in others, have terminated,
// each with one remote pod and one terminal phase.
func (w *watchedPods) ranOnce(t *testing.T, count int, others ...types.UID) {
	t.Helper()
	w.cancel()
	<-w.stopped
	for _, complaint := range w.complaints {
		t.Error(complaint)
	}
	for _, uid := range others {
		delete(w.finished, uid)
	}
	if len(w.finished) != count {
		t.Errorf("%d pods have finished on rome, want %d", len(w.finished), count)
	}
	for uid := range w.finished {
		if _, ok := w.origins[string(uid)]; !ok {
			t.Errorf("pod %s finished on rome and never existed on milan", uid)
		}
	}
}

// podsGetNoProviderToken checks that a remote pod has no token: none of milan, and none of rome
// while no consumer's API server is configured.
func podsGetNoProviderToken(t *testing.T) {
	o := offloaded(t, remoteOnly)
	local := runReadyPod(t, o.namespace, "web", podSpec("serve"))
	if len(local.Spec.Volumes) == 0 {
		t.Error("rome mounted no token into the pod, so the test proves nothing")
	}
	remote := podReady(t, milan, o.remote, "web")
	for _, volume := range remote.Spec.Volumes {
		t.Errorf("on milan the pod has the volume %s", show(volume))
	}
	result := milan.Kubectl(t.Context(), "exec", "-n", o.remote, "web", "--", tester, "ls",
		"/var/run/secrets/kubernetes.io/serviceaccount")
	if result.Code != 1 {
		t.Errorf("the container sees %q, want no directory; %v", result.Stdout, result.Err)
	}
}
