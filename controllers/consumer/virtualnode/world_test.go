// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	romeID    = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID   = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
	peer      = "liqo-peer-milan"
	kubelet   = "federation-virtual-kubelet-milan"
	role      = "federation-virtual-kubelet-milan"
	installed = "liqo"
)

var list = kittest.Resources

// world is the fake consumer rome, with one virtual node of the provider milan.
type world struct {
	*kittest.Cluster
	*Reconciler
	t *testing.T
	// resources are the resources that discovery returns.
	resources []metav1.APIResource
	failure   error
	// forgotten are the nodes whose pods are no longer watched.
	forgotten []string
}

// ServerResourcesForGroupVersionWithContext implements kit.Discovery.
func (w *world) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: w.resources}, w.failure
}

// pods implements Pods with the pods of the fake cluster.
type pods struct {
	Pods
	world *world
}

func (p pods) List(ctx context.Context, node string) ([]*corev1.Pod, bool, error) {
	var all corev1.PodList
	if err := p.world.List(ctx, &all); err != nil {
		return nil, false, err
	}
	var found []*corev1.Pod
	for i := range all.Items {
		if all.Items[i].Spec.NodeName == node {
			found = append(found, &all.Items[i])
		}
	}
	return found, true, nil
}

func (p pods) Forget(node string) { p.world.forgotten = append(p.world.forgotten, node) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Cluster: kittest.New(t,
		&v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: peer, Name: "milan", UID: "vn", Generation: 1,
				CreationTimestamp: metav1.NewTime(kittest.Epoch),
			},
			Spec: v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: "liqo-milan", OfferName: "milan"},
		},
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
			Labels: map[string]string{v1alpha1.LabelSchedulingEnabled: "true"}}},
	)}
	w.Reconciler = &Reconciler{
		Client: w.Controller, Live: w.Controller, Pods: pods{world: w},
		Kinds: kit.NewServedKinds(w, w.Cluster.Clock), Clock: w.Cluster.Clock,
		ClusterID: romeID, ClusterName: "rome", Namespace: installed,
		VirtualKubelet: VirtualKubelet{Image: "federation-virtual-kubelet:1", PullPolicy: "IfNotPresent",
			MemoryLimit: resource.QuantityValue{Quantity: resource.MustParse("512Mi")}},
		managed: w.Controller,
		uses:    newAccountUses(w.Cluster.Clock, func(string) bool { return true }, func(string) {}),
	}
	return w
}

// pass reconciles the virtual node once, and returns the writes to the API server.
func (w *world) pass() ([]string, error) {
	before := len(w.Writes)
	_, err := w.Reconcile(w.t.Context(), kit.Request(peer, "milan"))
	return w.WritesSince(before), err
}

// expect fails the test unless a reconcile sends exactly the writes.
func (w *world) expect(want ...string) {
	w.t.Helper()
	got, err := w.pass()
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("writes (-want +got):\n%s", diff)
	}
}

// deploy reconciles until the virtual kubelet is deployed.
func (w *world) deploy() {
	w.t.Helper()
	for range 3 {
		if _, err := w.pass(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// addNode adds the Node of the virtual node.
func (w *world) addNode(changes ...func(*corev1.Node)) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan", Labels: map[string]string{
		v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: milanID,
	}}}
	for _, change := range changes {
		change(node)
	}
	w.Add(node)
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

// addPod adds a pod on the Node. The pod has a finalizer, so that it stays after its deletion until end is called.
func (w *world) addPod(namespace, name string, changes ...func(*corev1.Pod)) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{"example.com/running"}},
		Spec:       corev1.PodSpec{NodeName: "liqo-milan"},
	}
	for _, change := range changes {
		change(pod)
	}
	w.Add(pod)
}

// end removes the finalizer of a pod that is being deleted.
func (w *world) end(namespace, name string) {
	w.t.Helper()
	pod := kittest.Read(w.Cluster, namespace, name, &corev1.Pod{})
	pod.Finalizers = nil
	if err := w.Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes the virtual node, and sets the clock to its deletionTimestamp.
func (w *world) remove() {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), w.virtual()); err != nil {
		w.t.Fatal(err)
	}
	w.Cluster.Clock.SetTime(w.virtual().DeletionTimestamp.Time)
}

func (w *world) virtual() *v1alpha1.VirtualNode {
	w.t.Helper()
	return kittest.Read(w.Cluster, peer, "milan", &v1alpha1.VirtualNode{})
}

func (w *world) condition(kind string) *metav1.Condition {
	w.t.Helper()
	return meta.FindStatusCondition(w.virtual().Status.Conditions, kind)
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: peer, Name: kubelet}}
	if !w.Has(deployment) {
		return nil
	}
	return deployment
}

func (w *world) changeVirtual(change func(*v1alpha1.VirtualNode)) {
	w.t.Helper()
	kittest.Change(w.Cluster, peer, "milan", &v1alpha1.VirtualNode{}, change)
}

func (w *world) changeCluster(change func(*v1alpha1.ForeignCluster)) {
	w.t.Helper()
	kittest.Change(w.Cluster, "", "milan", &v1alpha1.ForeignCluster{}, change)
}

func (w *world) changeNode(change func(*corev1.Node)) {
	w.t.Helper()
	kittest.Change(w.Cluster, "", "liqo-milan", &corev1.Node{}, change)
}

// setOffer replaces the offer of milan; nil deletes it.
func (w *world) setOffer(offer *v1alpha1.ResourceOffer) {
	w.t.Helper()
	if err := w.DeleteAllOf(w.t.Context(), &v1alpha1.ResourceOffer{}, client.InNamespace(peer)); err != nil {
		w.t.Fatal(err)
	}
	if offer != nil {
		offer = offer.DeepCopy()
		offer.Namespace, offer.Name = peer, "milan"
		w.Add(offer)
	}
}

// after sets the clock to a time after the deletion of the virtual node.
func (w *world) after(time time.Duration) {
	w.t.Helper()
	w.Cluster.Clock.SetTime(w.virtual().DeletionTimestamp.Add(time))
}
