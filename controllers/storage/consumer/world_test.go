// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

const (
	romeID     = "11111111-1111-4111-8111-111111111111"
	milanID    = "22222222-2222-4222-8222-222222222222"
	turinID    = "33333333-3333-4333-8333-333333333333"
	claimUID   = "0a1b2c3d-0000-4000-8000-000000000001"
	milanNode  = "liqo-milan"
	milanSpace = "shop-rome"
	storageNS  = "liqo-storage"
)

var (
	dataDB0     = types.NamespacedName{Namespace: "shop", Name: "data-db-0"}
	dataRequest = ctrl.Request{NamespacedName: dataDB0}
	atMilan     = place{"milan", milanSpace}
	shadowName  = volume.RemoteClaimName(dataDB0.Name, volume.VolumeName(claimUID))
)

// world is the cluster rome with the controllers of this package, and its provider milan.
type world struct {
	*Config
	t     *testing.T
	rome  *kittest.Cluster
	milan *fedfake.Clientset
	// refusal is the error of the subresource move; nil means that it accepts the request.
	refusal error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, rome: kittest.New(t, objects...), milan: fedfake.NewSimpleClientset()}
	fakes.React(w.milan, "create", "shadowvolumeclaims",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			created := action.(clienttesting.CreateAction).GetObject().(*v1alpha1.ShadowVolumeClaim)
			created.UID = types.UID("uid-of-" + created.Name)
			return false, nil, nil
		})
	peers := remote.NewPeersWith(
		func(*remote.Identity) (*remote.Clients, error) { return &remote.Clients{Federation: w.milan}, nil })
	shadows := NewShadows(peers)
	if err := peers.Set(t.Context(), "milan", &remote.Identity{Namespace: "liqo-tenant-rome"}); err != nil {
		t.Fatal(err)
	}
	w.Config = &Config{
		Client: interceptor.NewClient(w.rome.Controller, interceptor.Funcs{SubResourceCreate: w.move}),
		Live:   w.rome, Events: w.rome.Events, Shadows: shadows, ClusterID: romeID, ClusterName: "rome", Namespace: storageNS,
	}
	return w
}

// move implements the subresource move.
func (w *world) move(
	ctx context.Context, c client.Client, _ string, object, request client.Object, _ ...client.SubResourceCreateOption,
) error {
	if w.refusal != nil {
		return w.refusal
	}
	described := object.DeepCopyObject().(*v1alpha1.VirtualVolume)
	described.Spec.Move = &v1alpha1.RequestedMove{ID: "move-1", MoveSpec: request.(*v1alpha1.Move).Spec}
	return c.Update(ctx, described)
}

// writes returns the verb and the kind of each write of the controllers.
func (w *world) writes() []string {
	var all []string
	for _, write := range w.rome.Writes {
		all = append(all, write.Verb+" "+write.Kind)
	}
	return all
}

// get reads an object, and fails the test if it does not exist.
func get[T client.Object](w *world, namespace, name string, object T) T {
	w.t.Helper()
	return kittest.Read(w.rome, namespace, name, object)
}

// absent fails the test if an object exists.
func absent(w *world, namespace, name string, object client.Object) {
	w.t.Helper()
	if err := w.Client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name},
		object); !apierrors.IsNotFound(err) {
		w.t.Errorf("%T %s exists: %v", object, name, err)
	}
}

// change updates an object as another client.
func change[T client.Object](w *world, namespace, name string, object T, change func(T)) {
	w.t.Helper()
	kittest.Change(w.rome, namespace, name, object, change)
}

// kept returns the ShadowVolumeClaim on milan, or nil.
func (w *world) kept() *v1alpha1.ShadowVolumeClaim {
	w.t.Helper()
	kept, err := w.milan.FederationV1alpha1().ShadowVolumeClaims(milanSpace).Get(w.t.Context(), shadowName,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return kept
}

// deletions returns a pointer to the deletion policy of the ShadowVolumeClaim on milan when it was last deleted. It
// points to empty before that.
func (w *world) deletions() *v1alpha1.VolumeDeletionPolicy {
	var policy v1alpha1.VolumeDeletionPolicy
	fakes.React(w.milan, "delete", "shadowvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		// Calling the client here would lock it twice.
		kept, err := w.milan.Tracker().Get(v1alpha1.SchemeGroupVersion.WithResource("shadowvolumeclaims"),
			milanSpace, shadowName)
		if err == nil {
			policy = kept.(*v1alpha1.ShadowVolumeClaim).Spec.DeletionPolicy
		}
		return false, nil, err
	})
	return &policy
}

// answer changes the status of the ShadowVolumeClaim on milan, and waits until rome's cache has the change.
func (w *world) answer(change func(*v1alpha1.ShadowVolumeClaim)) {
	w.t.Helper()
	kept := w.kept()
	if kept == nil {
		w.t.Fatal("milan has no claim")
	}
	change(kept)
	if _, err := w.milan.FederationV1alpha1().ShadowVolumeClaims(milanSpace).Update(w.t.Context(), kept,
		metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.seen(func(cached *v1alpha1.ShadowVolumeClaim) bool {
		return cached != nil && cached.Status.Phase == kept.Status.Phase &&
			len(cached.Status.Conditions) == len(kept.Status.Conditions) &&
			(kept.Status.Capacity == nil || cached.Status.Capacity != nil &&
				cached.Status.Capacity.Cmp(*kept.Status.Capacity) == 0)
	})
}

// seen waits until wanted returns true for the cached ShadowVolumeClaim on milan.
func (w *world) seen(wanted func(*v1alpha1.ShadowVolumeClaim) bool) {
	w.t.Helper()
	if err := w.Shadows.Watch(atMilan); err != nil {
		w.t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			cached, synced := w.Shadows.cached(atMilan, shadowName)
			return synced && wanted(cached), nil
		})
	if err != nil {
		w.t.Fatalf("the watch of milan's claim: %v", err)
	}
}

// expectEvent fails the test unless exactly one event since the last call contains the text.
func (w *world) expectEvent(text string) {
	w.t.Helper()
	found, all := 0, w.rome.Recorded()
	for _, event := range all {
		if strings.Contains(event, text) {
			found++
		}
	}
	if found != 1 {
		w.t.Errorf("%d events contain %q: %q", found, text, all)
	}
}

func virtual(change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: v1alpha1.StorageProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: ptr.To(true),
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
	}
	for _, change := range change {
		change(class)
	}
	return class
}

func local(change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "local", Annotations: map[string]string{annotationDefaultClass: "true"}},
		Provisioner: "local.example.com",
	}
	for _, change := range change {
		change(class)
	}
	return class
}

func userClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: dataDB0.Namespace, Name: dataDB0.Name, UID: claimUID,
			Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, change := range change {
		change(claim)
	}
	return claim
}

func selected(node string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) { claim.Annotations[volume.AnnotationSelectedNode] = node }
}

func bound(name string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName, claim.Status.Phase = name, corev1.ClaimBound
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	}
}

func worker() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}} }

// milan returns the objects in rome that represent its provider milan.
func milan() []client.Object {
	namespace := naming.PeerNamespace("milan")
	return []client.Object{
		&v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec:       v1alpha1.ForeignClusterSpec{ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled},
		},
		&v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"},
			Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: milanNode, OfferName: "milan"},
			Status: v1alpha1.VirtualNodeStatus{
				StorageClasses: []string{"ssd", "disk"},
				Storage:        corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")},
			},
		},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: milanNode, Labels: map[string]string{
			v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: milanID,
			corev1.LabelTopologyZone: "north",
		}}},
		&v1alpha1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome"},
			Spec: v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: "shop",
				RemoteName: milanSpace}}},
			Status: v1alpha1.NamespaceMapStatus{Namespaces: []v1alpha1.NamespaceMappingStatus{
				{Name: "shop", RemoteName: milanSpace, Phase: v1alpha1.NamespaceMappingReady},
			}},
		},
	}
}

func withMilan(objects ...client.Object) []client.Object { return append(milan(), objects...) }
