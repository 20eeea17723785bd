// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offloading

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	romeID  = "11111111-1111-4111-8111-111111111111"
	milanID = "22222222-2222-4222-8222-222222222222"
)

// consumer is the fake cluster rome, with both reconcilers of this package.
type consumer struct {
	*kittest.Cluster
	t          *testing.T
	reconciler *Reconciler
	maps       *MapReconciler
	watches    *watches
	// refuse returns the response to the eviction of a pod; nil accepts it, without deleting the pod. evicted are
	// the names of the pods whose eviction was requested.
	refuse  func(*corev1.Pod) error
	evicted []string
	// lists counts the lists of pods from the API server.
	lists int
}

func newConsumer(t *testing.T, objects ...client.Object) *consumer {
	t.Helper()
	c := &consumer{Cluster: kittest.New(t, objects...), t: t, refuse: granted}
	c.watches = &watches{cluster: c.Cluster, complete: true}
	config := &Config{
		Client: interceptor.NewClient(c.Controller, interceptor.Funcs{SubResourceCreate: c.evict}),
		Live: interceptor.NewClient(c.WithWatch, interceptor.Funcs{
			List: func(ctx context.Context, w client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				c.lists++
				return w.List(ctx, list, options...)
			},
		}),
		Clock: c.Clock, ClusterName: "rome", ClusterID: romeID, Pods: c.watches, Volumes: noVolumes{},
	}
	c.reconciler = &Reconciler{
		Config: config, Events: c.Events, bindings: c,
		evictions:   flowcontrol.NewFakeBackOff(minEvictionDelay, maxEvictionDelay, c.Clock),
		unoffloaded: flowcontrol.NewFakeBackOff(minEvictionDelay, maxUnoffloadDelay, c.Clock),
	}
	c.maps = &MapReconciler{Config: config}
	return c
}

func (c *consumer) evict(_ context.Context, _ client.Client, _ string, object, eviction client.Object,
	_ ...client.SubResourceCreateOption,
) error {
	pod := object.(*corev1.Pod)
	if uid := eviction.(*policyv1.Eviction).DeleteOptions.Preconditions.UID; *uid != pod.UID {
		c.t.Errorf("pod %s is evicted by UID %s, want %s", pod.Name, *uid, pod.UID)
	}
	c.evicted = append(c.evicted, pod.Name)
	return c.refuse(pod)
}

// pass reconciles the namespace shop once. It returns the time after which it is reconciled again, and the
// condition PodsInPlace.
func (c *consumer) pass() (time.Duration, metav1.Condition) {
	c.t.Helper()
	result, err := c.reconciler.Reconcile(c.t.Context(), offloadingRequest("shop"))
	if err != nil {
		c.t.Fatal(err)
	}
	inPlace := meta.FindStatusCondition(c.status().Conditions, v1alpha1.ConditionPodsInPlace)
	return result.RequeueAfter, ptr.Deref(inPlace, metav1.Condition{})
}

// status returns the status of the NamespaceOffloading of namespace shop; empty if it does not exist.
func (c *consumer) status() v1alpha1.NamespaceOffloadingStatus {
	c.t.Helper()
	offloading := offloadingOf("shop", 0)
	c.Has(offloading)
	return offloading.Status
}

// passMap reconciles the NamespaceMap of milan, and returns it.
func (c *consumer) passMap() *v1alpha1.NamespaceMap {
	c.t.Helper()
	if _, err := c.maps.Reconcile(c.t.Context(), kit.Request("", "milan")); err != nil {
		c.t.Fatal(err)
	}
	m := namespaceMap()
	c.Has(m)
	return m
}

// reasons returns the reasons of the events since the last call.
func (c *consumer) reasons() []string {
	var reasons []string
	for _, event := range c.Recorded() {
		reasons = append(reasons, strings.Fields(event)[1])
	}
	return reasons
}

// deleted returns the names of the pods that the controller deleted, in order.
func (c *consumer) deleted() []string {
	var names []string
	for _, write := range c.Writes {
		if write.Verb == "delete" && write.Kind == "Pod" {
			names = append(names, write.Name)
		}
	}
	return names
}

// watches implements Pods. It reports the pods as complete if the field complete is true.
type watches struct {
	cluster            *kittest.Cluster
	complete           bool
	watched, forgotten []string
}

func (w *watches) Listen(func(string, *corev1.Pod)) {}

func (w *watches) List(ctx context.Context, namespace string) ([]*corev1.Pod, bool, error) {
	w.watched = append(w.watched, namespace)
	var pods corev1.PodList
	err := w.cluster.List(ctx, &pods, client.InNamespace(namespace))
	return slices.DeleteFunc(kit.Pointers(pods.Items), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }),
		w.complete, err
}

func (w *watches) Seen(namespace string) ([]*corev1.Pod, bool) {
	pods, complete, err := w.List(context.Background(), namespace)
	return pods, complete && err == nil
}

func (w *watches) Forget(namespace string) { w.forgotten = append(w.forgotten, namespace) }

// noVolumes implements Volumes without any data on providers.
type noVolumes struct{}

func (noVolumes) Held(context.Context, string, string) ([]string, error) { return nil, nil }

func (noVolumes) Release(context.Context, *v1alpha1.NamespaceOffloading, string) error { return nil }

func (noVolumes) Obstacles(string, string) []string { return nil }

func granted(*corev1.Pod) error { return nil }

// blockedByBudget returns the error for an eviction that a PodDisruptionBudget does not allow.
func blockedByBudget(*corev1.Pod) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: "DisruptionBudget", Message: "The disruption budget web needs 2 healthy pods and has 2 currently",
	}}
	return err
}

func foreignCluster() *v1alpha1.ForeignCluster {
	return kittest.ForeignCluster("milan", milanID, v1alpha1.PeeringEnabled, v1alpha1.PeeringEnabled)
}

func virtualNode() *v1alpha1.VirtualNode {
	node := kittest.VirtualNode("milan", milanID)
	node.Spec.Labels = map[string]string{"region": "it"}
	return node
}

func offloadingOf(namespace string, age time.Duration,
	changes ...func(*v1alpha1.NamespaceOffloading),
) *v1alpha1.NamespaceOffloading {
	offloading := &v1alpha1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.NamespaceOffloadingName, Namespace: namespace, Generation: 1,
			CreationTimestamp: metav1.NewTime(kittest.Epoch.Add(-age)), Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName},
	}
	for _, change := range changes {
		change(offloading)
	}
	return offloading
}

// inRegion sets a cluster selector for a region. The provider milan is in the region north.
func inRegion(region string) func(*v1alpha1.NamespaceOffloading) {
	return func(offloading *v1alpha1.NamespaceOffloading) {
		offloading.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{region},
			}},
		}}
	}
}

// remoteOnly sets the pod offloading strategy Remote, and how it is enforced.
func remoteOnly(enforcement v1alpha1.PlacementEnforcement) func(*v1alpha1.NamespaceOffloading) {
	return func(offloading *v1alpha1.NamespaceOffloading) {
		offloading.Spec.PodOffloadingStrategy, offloading.Spec.Enforcement = v1alpha1.Remote, enforcement
	}
}

// deletedSince sets a deletionTimestamp that is ago in the past.
func deletedSince(ago time.Duration) func(*v1alpha1.NamespaceOffloading) {
	return func(offloading *v1alpha1.NamespaceOffloading) {
		offloading.DeletionTimestamp = &metav1.Time{Time: kittest.Epoch.Add(-ago)}
	}
}

// reportedAs sets the status that the controller writes for states and pods during the unoffloading.
func reportedAs(t *testing.T, states []state, pods ...*corev1.Pod) func(*v1alpha1.NamespaceOffloading) {
	return func(offloading *v1alpha1.NamespaceOffloading) {
		r := newConsumer(t).reconciler
		offloading.Status = statusOf(offloading, "shop", states, v1alpha1.OffloadingTerminating, kittest.Epoch)
		meta.SetStatusCondition(&offloading.Status.Conditions, *r.removing(t.Context(), offloading, pods))
	}
}

// namespaceMap returns a NamespaceMap with entries for namespaces, whose remote namespaces are ready.
func namespaceMap(names ...string) *v1alpha1.NamespaceMap {
	m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: naming.PeerNamespace("milan")}}
	for _, name := range names {
		m.Spec.Namespaces = append(m.Spec.Namespaces, v1alpha1.NamespaceMapping{Name: name, RemoteName: name})
		m.Status.Namespaces = append(m.Status.Namespaces, v1alpha1.NamespaceMappingStatus{
			Name: name, RemoteName: name, Phase: v1alpha1.NamespaceMappingReady,
		})
	}
	return m
}

// namespace returns a namespace with a finalizer, so that it stays while it is being deleted.
func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{"test/stays"}},
	}
}

func labelled(name string) *corev1.Namespace {
	return namespace(name, map[string]string{v1alpha1.LabelSchedulingEnabled: "true"})
}

// podOf returns a pod on a local node whose controller is owner; if owner is empty, it has no controller.
func podOf(owner, name string, age time.Duration, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(kittest.Epoch.Add(-age)),
		},
		Spec: corev1.PodSpec{NodeName: "worker"},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true),
		}}
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func onNode(name string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.NodeName = name } }

// offloaded puts a pod on the virtual node.
func offloaded(pod *corev1.Pod) { pod.Spec.NodeName = "liqo-milan" }

func succeeded(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func ofDaemonSet(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "DaemonSet" }

func ending(pod *corev1.Pod) {
	pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: kittest.Epoch}, []string{"test/stays"}
}

// offloadedShop returns the objects of the offloaded namespace shop, except its NamespaceOffloading.
func offloadedShop() []client.Object {
	return []client.Object{foreignCluster(), virtualNode(), namespaceMap("shop"), labelled("shop")}
}

func asObjects(pods []*corev1.Pod) []client.Object {
	var all []client.Object
	for _, pod := range pods {
		all = append(all, pod.DeepCopy())
	}
	return all
}
