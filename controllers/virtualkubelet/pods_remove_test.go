// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/virtualkubelet/reflect"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

func TestAPodGoesWhoseShadowPodCameAndWentUnseen(t *testing.T) {
	const namespace, twinNamespace = "web", "web-rome"
	federation := fake.NewSimpleClientset()
	// The watch says nothing, as one that was cut and is not back yet.
	federation.PrependWatchReactor("shadowpods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "short", UID: "1", CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: "liqo-milan", Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
	local, provider := fakes.Followed(kubefake.NewClientset(pod)), fakes.Followed(kubefake.NewClientset())
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := pods.Add(pod); err != nil {
		t.Fatal(err)
	}
	own, err := NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	to := reflect.Destination{OriginID: "rome", DestinationID: "milan", NodeName: "liqo-milan"}
	remote := RemoteClients{Core: provider, Federation: federation}
	synced := make(chan string, 1)
	mapping := v1alpha1.NamespaceMapping{Name: namespace, RemoteName: twinNamespace}
	watched, err := startTwin(t.Context(), remote, mapping, to, twinEvents{
		shadow: func(cache.ObjectName) {}, pod: func(cache.ObjectName, *corev1.Pod) {}, synced: func(name string) { synced <- name },
	})
	if err != nil {
		t.Fatal(err)
	}
	<-synced
	p := &Pods{
		nodeName: "liqo-milan", provider: "milan", to: to, local: local, remote: remote,
		lister: corev1listers.NewPodLister(pods), recorder: record.NewFakeRecorder(10), metrics: own, clock: clock.RealClock{},
		patch: func() *v1alpha1.OffloadingPatch { return nil }, reachable: func() bool { return true }, queue: newQueue(),
	}
	defer p.queue.ShutDown()
	key := cache.MetaObjectToName(pod)
	if err := p.create(t.Context(), key, pod, watched); err != nil {
		t.Fatal(err)
	}

	going := pod.DeepCopy()
	now := metav1.NewTime(time.Now())
	going.DeletionTimestamp = &now
	here := extent{wanted: true, ready: true, twin: watched}
	for pass, exists := range []bool{true, true, false, false} {
		if err := p.remove(t.Context(), key, going, here); err != nil {
			t.Fatal(err)
		}
		_, err := local.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); gone == exists {
			t.Errorf("after pass %d: gone is %t", pass+1, gone)
		}
	}
	if _, left := p.created.Load(key); left {
		t.Error("the shadow pod is still believed to be there")
	}
	deletions := 0
	for _, action := range local.Actions() {
		if action.Matches("delete", "pods") {
			deletions++
		}
	}
	if deletions != 1 {
		t.Errorf("the pod was deleted %d times while it was still cached", deletions)
	}
}
