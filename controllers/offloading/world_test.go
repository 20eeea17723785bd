// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

const (
	romeID  = "11111111-1111-4111-8111-111111111111"
	milanID = "22222222-2222-4222-8222-222222222222"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// world is what a controller finds: its caches and the APIs hold the same.
type world struct {
	kube       *kubefake.Clientset
	federation *fedfake.Clientset
	kubeInf    kubeinformers.SharedInformerFactory
	fedInf     externalversions.SharedInformerFactory
	events     *record.FakeRecorder
}

func newWorld(t *testing.T, objects ...runtime.Object) world {
	t.Helper()
	var core, ours []runtime.Object
	for _, object := range objects {
		switch object.(type) {
		case *v1alpha1.ForeignCluster, *v1alpha1.VirtualNode, *v1alpha1.NamespaceOffloading, *v1alpha1.NamespaceMap:
			ours = append(ours, object)
		default:
			core = append(core, object)
		}
	}
	w := world{kube: kubefake.NewSimpleClientset(core...), federation: fedfake.NewSimpleClientset(ours...), events: record.NewFakeRecorder(10)}
	w.kubeInf = kubeinformers.NewSharedInformerFactory(w.kube, 0)
	w.fedInf = externalversions.NewSharedInformerFactory(w.federation, 0)
	group, v1 := w.fedInf.Federation().V1alpha1(), w.kubeInf.Core().V1()
	for _, object := range objects {
		var informer cache.SharedIndexInformer
		switch object.(type) {
		case *v1alpha1.ForeignCluster:
			informer = group.ForeignClusters().Informer()
		case *v1alpha1.VirtualNode:
			informer = group.VirtualNodes().Informer()
		case *v1alpha1.NamespaceOffloading:
			informer = group.NamespaceOffloadings().Informer()
		case *v1alpha1.NamespaceMap:
			informer = group.NamespaceMaps().Informer()
		case *corev1.Namespace:
			informer = v1.Namespaces().Informer()
		case *corev1.Node:
			informer = v1.Nodes().Informer()
		default:
			continue
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// writes are what a controller changed, in words.
func (w world) writes() []string {
	var all []string
	for _, action := range append(w.kube.Actions(), w.federation.Actions()...) {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			resource := action.GetResource().Resource
			if action.GetSubresource() != "" {
				resource += "/" + action.GetSubresource()
			}
			all = append(all, verb+" "+resource)
		}
	}
	return all
}

func (w world) consumer(t *testing.T) *Consumer {
	t.Helper()
	c, err := NewConsumer(w.kube, w.federation, w.kubeInf, w.fedInf, w.events, "rome", romeID)
	if err != nil {
		t.Fatal(err)
	}
	c.clock = clocktesting.NewFakePassiveClock(noon)
	c.seenPods = w.pods
	c.watchPods = func(_ context.Context, namespace string) ([]*corev1.Pod, bool, error) {
		pods, complete := w.pods(namespace)
		return pods, complete, nil
	}
	c.forgetPods = func(string) {}
	return c
}

// pods are what a watch of the pods of a namespace has seen: all of them.
func (w world) pods(namespace string) ([]*corev1.Pod, bool) {
	list, err := w.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		return nil, false
	}
	var pods []*corev1.Pod
	for i := range list.(*corev1.PodList).Items {
		pods = append(pods, &list.(*corev1.PodList).Items[i])
	}
	return pods, true
}

func foreignCluster() *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec:       v1alpha1.ForeignClusterSpec{ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled, Incoming: v1alpha1.PeeringEnabled},
	}
}

func milanNode() *v1alpha1.VirtualNode {
	return &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: naming.PeerNamespace("milan")},
		Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan", Labels: map[string]string{"region": "it"}},
	}
}

func offloadingOf(namespace string, age time.Duration) *v1alpha1.NamespaceOffloading {
	return &v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.NamespaceOffloadingName, Namespace: namespace, Generation: 1,
			CreationTimestamp: metav1.NewTime(noon.Add(-age)), Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName},
	}
}

func leavingSince(offloading *v1alpha1.NamespaceOffloading, ago time.Duration) *v1alpha1.NamespaceOffloading {
	since := metav1.NewTime(noon.Add(-ago))
	offloading.DeletionTimestamp = &since
	return offloading
}

// toldLeaving has the status say how an offloading stands that is being left
// while these pods are still away.
func toldLeaving(t *testing.T, offloading *v1alpha1.NamespaceOffloading, standings []standing, away ...*corev1.Pod) {
	t.Helper()
	offloading.Status = statusOf(offloading, "shop", standings, v1alpha1.OffloadingTerminating, noon)
	meta.SetStatusCondition(&offloading.Status.Conditions, *newWorld(t).consumer(t).comingHome(offloading, away))
}

func mapWith(names ...string) *v1alpha1.NamespaceMap {
	m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.PeerNamespace("milan")}}
	for _, name := range names {
		m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name})
		m.Status.Namespaces = append(m.Status.Namespaces, v1alpha1.NamespaceMappingStatus{Name: name, RemoteName: name, Phase: v1alpha1.NamespaceMappingReady})
	}
	return m
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func podAt(node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "on-" + node, Namespace: "shop", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

func labelled(name string) *corev1.Namespace {
	return namespace(name, map[string]string{v1alpha1.LabelSchedulingEnabled: "true"})
}
