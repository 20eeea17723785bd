// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

func aPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"},
		Spec: corev1.PodSpec{
			NodeName:   "liqo-milan",
			Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}},
		},
	}
}

// awaitSynced waits until all pods of a node or namespace are cached, which is shortly after the first call of a
// listener.
func awaitSynced(t *testing.T, watches *Pods, of string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), func() bool { return watches.Synced(of) }) {
		t.Fatalf("the pods of %s are not cached", of)
	}
}

func TestPodsOfOtherNamespacesAreNotWatched(t *testing.T) {
	client := fake.NewClientset(aPod("web", "a"), aPod("other", "b"))
	changes := make(chan string, 10)
	watches := PodsOfNamespaces(client)
	watches.Listen(func(namespace string, _ *corev1.Pod) { changes <- namespace })
	if _, complete := watches.Seen("web"); complete {
		t.Error("the pods of a namespace that is not watched are complete")
	}
	if _, _, err := watches.List(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	next := func() {
		t.Helper()
		select {
		case namespace := <-changes:
			if namespace != "web" {
				t.Errorf("a pod of %s changed", namespace)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no change is reported")
		}
	}
	next()
	awaitSynced(t, watches, "web")
	pods, complete, err := watches.List(t.Context(), "web")
	if err != nil || !complete || len(pods) != 1 || pods[0].Name != "a" || pods[0].Spec.NodeName != "liqo-milan" {
		t.Fatalf("the pods are %v, complete: %t, %v", pods, complete, err)
	}
	if len(pods[0].Spec.Containers) > 0 {
		t.Error("containers are cached")
	}
	ended := aPod("web", "a")
	ended.Status.Phase = corev1.PodSucceeded
	if _, err := client.CoreV1().Pods("web").UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next()
	// By now the watch has started. A watch that starts later would miss the deletion, because the fake client does not
	// replay it.
	if err := client.CoreV1().Pods("web").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next()
	watches.Forget("web")
	if _, complete := watches.Seen("web"); complete {
		t.Error("the pods of a namespace that was forgotten are complete")
	}
}

// tokens is a PodCounter for pods that need tokens. It sends each call of Count as a line of text.
type tokens chan string

func (tokens) Counts(pod *corev1.Pod) bool { return podspec.NeedsTokens(pod) }

func (c tokens) Count(node string, pod *corev1.Pod, by int) {
	c <- fmt.Sprintf("%s %s of %s: %+d", node, pod.Name, pod.Spec.ServiceAccountName, by)
}

func TestPodsAreCountedWhenTheyAreCreatedAndDeleted(t *testing.T) {
	robot := func(name string) *corev1.Pod {
		pod := aPod("web", name)
		pod.Spec.ServiceAccountName = "robot"
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}},
			}}},
		}
		return pod
	}
	client, counts := fake.NewClientset(robot("a")), make(tokens, 10)
	watches := PodsOfNodes(client)
	watches.Count(counts)
	if watches.Synced("liqo-milan") {
		t.Error("the pods of a node that is not watched are cached")
	}
	if _, _, err := watches.List(t.Context(), "liqo-milan"); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-counts:
			if got != want {
				t.Errorf("counted %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q is not counted", want)
		}
	}
	expect("liqo-milan a of robot: +1")
	awaitSynced(t, watches, "liqo-milan")
	again := robot("a")
	again.UID = "2"
	if _, err := client.CoreV1().Pods("web").Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("liqo-milan a of robot: -1")
	expect("liqo-milan a of robot: +1")
	change := func(change func(*corev1.Pod)) {
		t.Helper()
		change(again)
		if _, err := client.CoreV1().Pods("web").Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(func(pod *corev1.Pod) { pod.Annotations = map[string]string{v1alpha1.AnnotationAPIAccess: "Disabled"} })
	expect("liqo-milan a of robot: -1")
	change(func(pod *corev1.Pod) { pod.Annotations = nil })
	expect("liqo-milan a of robot: +1")
	change(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	expect("liqo-milan a of robot: -1")
	if err := client.CoreV1().Pods("web").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("web").Create(t.Context(), robot("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("liqo-milan b of robot: +1")
	if err := client.CoreV1().Pods("web").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("liqo-milan b of robot: -1")
}

func TestEveryListenerIsCalledAndFindsThePod(t *testing.T) {
	pod := aPod("web", "a")
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}}
	client := fake.NewClientset(pod)
	watches := PodsOfNodes(client)
	called := make(chan string, 10)
	for _, listener := range []string{"one", "other"} {
		watches.Listen(func(node string, pod *corev1.Pod) { called <- listener + " " + node + " " + pod.Name })
	}
	if found := watches.Get("liqo-milan", "web", "a"); found != nil {
		t.Errorf("found %v on a node that is not watched", found)
	}
	if _, _, err := watches.List(t.Context(), "liqo-milan"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one liqo-milan a", "other liqo-milan a"} {
		select {
		case got := <-called:
			if got != want {
				t.Errorf("called with %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q is not called", want)
		}
	}
	awaitSynced(t, watches, "liqo-milan")
	found := watches.Get("liqo-milan", "web", "a")
	if found == nil || watches.Get("liqo-milan", "web", "b") != nil {
		t.Fatalf("found %v, or a pod that does not exist", found)
	}
	if diff := cmp.Diff(pod.Status.PodIPs, found.Status.PodIPs); diff != "" {
		t.Errorf("the addresses differ (-want +got):\n%s", diff)
	}
}

func TestListenersAreCalledOnlyForFieldsThatControllersRead(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"a condition", func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		{"a label", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		{"a node", func(p *corev1.Pod) { p.Spec.NodeName = "other" }, true},
		{"the phase", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		{"an address", func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}} }, true},
		{"a deletion", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		{"another pod of the same name", func(p *corev1.Pod) { p.UID = "2" }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := aPod("web", "a")
			current := old.DeepCopy()
			test.change(current)
			if got := podChanged(old, current); got != test.want {
				t.Errorf("changed: %t, want %t", got, test.want)
			}
		})
	}
}
