// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	testerImage = "liqo.io/federation-tester:dev"
	tester      = "/federation-tester"
	shopImage   = "liqo.io/shop:dev"
	virtualNode = "liqo-milan"

	// soon is the timeout for changes that take a second or two on an idle machine.
	soon = 2 * time.Minute
)

// eventually fails the test if the condition does not hold within the timeout.
func eventually(t *testing.T, timeout time.Duration, what string, condition harness.Condition) {
	t.Helper()
	if err := harness.Eventually(t.Context(), timeout, what, condition); err != nil {
		t.Fatal(err)
	}
}

// must returns v, or fails the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// kubectl returns the output of kubectl, or fails the test.
func kubectl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	result := c.Kubectl(ctx, args...)
	if result.Err != nil {
		t.Fatalf("on %s: %v", c.Name, result.Err)
	}
	return result.Stdout
}

// gone is the result of a condition that waits until an object does not exist, where err is the
// error of getting it.
func gone(err error) (bool, string, error) {
	if apierrors.IsNotFound(err) {
		return true, "", nil
	}
	return false, "it still exists", err
}

// offload has the names of an offloaded namespace of rome and of its remote namespace on milan.
type offload struct {
	namespace, remote string
}

// namespaceOn creates a namespace and deletes it when the test ends.
func namespaceOn(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	name := "e2e-" + rand.String(6)
	_, err := c.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	// Controllers create a ServiceAccount and a ConfigMap in each namespace. Without waiting, a
	// snapshot could miss them, and a later one would report them as left behind.
	eventually(t, soon, "namespace "+name+" to have what every namespace has",
		func(ctx context.Context) (bool, string, error) {
			_, err := c.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			if err == nil {
				_, err = c.Kube.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				return false, err.Error(), nil
			}
			return err == nil, "", err
		})
	return name
}

// offloaded creates a namespace on rome and offloads it to milan.
func offloaded(t *testing.T, spec v1alpha1.NamespaceOffloadingSpec) offload {
	t.Helper()
	namespace := namespaceOn(t, rome)
	return offload{namespace, offloadNamespace(t, namespace, spec)}
}

// offloadNamespace offloads a namespace of rome and returns the name of its remote namespace.
func offloadNamespace(t *testing.T, namespace string, spec v1alpha1.NamespaceOffloadingSpec) string {
	t.Helper()
	client := rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace)
	_, err := client.CreateOffload(t.Context(), v1alpha1.NamespaceOffloadingName, &v1alpha1.Offload{Spec: spec},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var remoteNamespace string
	eventually(t, soon, "namespace "+namespace+" to be offloaded", func(ctx context.Context) (bool, string, error) {
		nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		remoteNamespace = nsof.Status.RemoteNamespaceName
		return nsof.Status.Phase == v1alpha1.OffloadingReady && nsof.Status.ObservedGeneration == nsof.Generation,
			show(nsof.Status), nil
	})
	return remoteNamespace
}

var remoteOnly = v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.Remote}

// show returns a value as JSON, for failure messages.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(text)
}

// podSpec returns the spec of a pod that runs the tester with args, and requests no resources.
func podSpec(args ...string) corev1.PodSpec {
	container := corev1.Container{Name: "tester", Image: testerImage, ImagePullPolicy: corev1.PullNever, Args: args}
	if slices.Equal(args, []string{"serve"}) {
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
			PeriodSeconds: 1,
			// The tester responds slowly on a busy machine.
			TimeoutSeconds: 10,
		}
	}
	return corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](5), Containers: []corev1.Container{container}}
}

// runPod creates a pod on rome.
func runPod(t *testing.T, namespace, name string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	return must(rome.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// runReadyPod creates a pod on rome and waits until it is Ready.
func runReadyPod(t *testing.T, namespace, name string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	runPod(t, namespace, name, spec)
	return podReady(t, rome, namespace, name)
}

// runDeployment creates a Deployment on rome and waits until its pods are Ready.
func runDeployment(t *testing.T, namespace, name string, replicas int32, spec corev1.PodSpec) []corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
	must(rome.Kube.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}))(t)
	return podsReady(t, rome, namespace, "app="+name, int(replicas))
}

// podReady waits until a pod is Ready.
func podReady(t *testing.T, c *harness.Cluster, namespace, name string) *corev1.Pod {
	t.Helper()
	return podThat(t, c, namespace, name, "be Ready", isReady)
}

// podThat waits until a pod meets a condition. what describes the condition.
func podThat(t *testing.T, c *harness.Cluster, namespace, name, what string,
	wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return podWithin(t, soon, c, namespace, name, what, wanted)
}

func podWithin(t *testing.T, timeout time.Duration, c *harness.Cluster, namespace, name, what string,
	wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, timeout, fmt.Sprintf("pod %s/%s on %s to %s", namespace, name, c.Name, what),
		func(ctx context.Context) (bool, string, error) {
			var err error
			if pod, err = c.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return false, "", err
			}
			return wanted(pod), podState(pod), nil
		})
	return pod
}

// podsReady waits until exactly count pods match the selector and all are Ready. It returns them
// sorted by name.
func podsReady(t *testing.T, c *harness.Cluster, namespace, selector string, count int) []corev1.Pod {
	t.Helper()
	return must(podsAreReady(t.Context(), c, namespace, selector, count))(t)
}

// podsAreReady is podsReady for callers without a test, with an error instead of a failure.
func podsAreReady(ctx context.Context, c *harness.Cluster, namespace, selector string,
	count int) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	what := fmt.Sprintf("%d pods %s in %s on %s to be Ready", count, selector, namespace, c.Name)
	err := harness.Eventually(ctx, soon, what, func(ctx context.Context) (bool, string, error) {
		list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, "", err
		}
		pods = list.Items
		saw := fmt.Sprintf("%d pods", len(pods))
		ready := len(pods) == count
		for i := range pods {
			if !isReady(&pods[i]) || pods[i].DeletionTimestamp != nil {
				ready = false
				saw += "; " + podState(&pods[i])
			}
		}
		return ready, saw, nil
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return pods, err
}

// podGone waits until a pod does not exist.
func podGone(t *testing.T, c *harness.Cluster, namespace, name string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("pod %s/%s on %s to be gone", namespace, name, c.Name),
		func(ctx context.Context) (bool, string, error) {
			_, err := c.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			return gone(err)
		})
}

func podState(pod *corev1.Pod) string {
	return fmt.Sprintf("%s on %q: %s", pod.Name, pod.Spec.NodeName, show(pod.Status))
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// writeLogLine makes a pod on milan write a line to its log.
func writeLogLine(t *testing.T, remoteNamespace, pod, line string) {
	t.Helper()
	requestPod(t, remoteNamespace, pod, "log/"+line)
}

// requestPod sends a request to a pod on milan, through the pod proxy of milan's API server.
func requestPod(t *testing.T, remoteNamespace, pod, path string, params ...string) {
	t.Helper()
	request := milan.Kube.CoreV1().RESTClient().Get().Namespace(remoteNamespace).Resource("pods").Name(pod +
		":8080").SubResource("proxy").Suffix(path)
	for i := 0; i < len(params); i += 2 {
		request.Param(params[i], params[i+1])
	}
	if err := request.Do(t.Context()).Error(); err != nil {
		t.Fatalf("requesting %s of pod %s/%s: %v", path, remoteNamespace, pod, err)
	}
}
