// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
)

// stored returns a PersistentVolume whose data milan stores with this StorageClass.
func stored(name, class, size string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "uid-of-volume", Finalizers: []string{volume.Finalizer},
			Annotations:       map[string]string{volume.AnnotationStorageClass: class},
			CreationTimestamp: metav1.Now(),
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: volume.RemoteSource(volume.Handle{ClusterID: milanID, Namespace: milanSpace,
				Claim: shadowName}),
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			StorageClassName: "liqo",
			ClaimRef:         claimReference(userClaim()), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func TestCapacityIsTheQuotaThatVolumesLeave(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		name    string
		quota   map[corev1.ResourceName]string
		refused int64
		want    int64
	}{
		{name: "without limit", want: maxRemoteFigure},
		{name: "storage", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi"}, want: 7 * gib},
		{name: "quota of the class", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi", "ssd.storageclass.storage.k8s.io/requests.storage": "3Gi"}, want: gib},
		{name: "another class", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi", "disk.storageclass.storage.k8s.io/requests.storage": "1Gi"}, want: 7 * gib},
		{name: "no claim left", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi", "persistentvolumeclaims": "2"}},
		{name: "exceeded", quota: map[corev1.ResourceName]string{"requests.storage": "1Gi"}},
		{name: "refused", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi"}, refused: 5 * gib, want: 5*gib - 1},
		{name: "refused claim larger than the remaining quota", quota: map[corev1.ResourceName]string{"requests.storage": "10Gi"}, refused: 9 * gib, want: 7 * gib},
	} {
		t.Run(test.name, func(t *testing.T) {
			quota := corev1.ResourceList{}
			for name, amount := range test.quota {
				quota[name] = resource.MustParse(amount)
			}
			used := usageOf([]corev1.PersistentVolume{*stored("a", "ssd", "2Gi"), *stored("b", "disk", "1Gi"), {}})
			got := grant{clusterID: milanID, quota: quota, used: used[milanID], refused: test.refused}.remaining("ssd")
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestVirtualNodesOfOneOfferShareItsQuota(t *testing.T) {
	node := func(name, offer, amount string) v1alpha1.VirtualNode {
		return v1alpha1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: naming.PeerNamespace("milan")},
			Spec:       v1alpha1.VirtualNodeSpec{ClusterID: milanID, OfferName: offer},
			Status: v1alpha1.VirtualNodeStatus{
				StorageClasses: []string{"ssd"},
				Storage:        corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(amount)},
			},
		}
	}
	all := grants([]v1alpha1.VirtualNode{node("a", "one", "10Gi"), node("b", "one", "10Gi"),
		node("c", "two", "5Gi")}, nil, nil)
	if len(all) != 1 || all[0].remaining("ssd") != 15<<30 {
		t.Errorf("got %+v", all)
	}
}

func TestLocalNodesArePublishedWithMoreThanAnyProvider(t *testing.T) {
	all := capacities([]storagev1.StorageClass{*virtual(), *local()},
		[]grant{{clusterID: milanID, classes: []string{"ssd"}}}, storageNS)
	if len(all) != 2 || all[0].Capacity.Cmp(*all[1].Capacity) <= 0 {
		t.Fatalf("got %+v", all)
	}
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "liqo.io/type", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"virtual-node"},
	}}}
	if diff := cmp.Diff(want, all[0].NodeTopology); diff != "" {
		t.Errorf("local nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"liqo.io/remote-cluster-id": milanID},
		all[1].NodeTopology.MatchLabels); diff != "" {
		t.Errorf("nodes of milan (-want +got):\n%s", diff)
	}
}

func TestDriverIsCreatedAfterTheCapacitiesAndDeletedBeforeThem(t *testing.T) {
	w := newWorld(t, withMilan(virtual())...)
	capacity := w.capacity()
	reconcile := func(want ...string) {
		t.Helper()
		w.rome.Writes = nil
		if _, err := capacity.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	reconcile("create CSIStorageCapacity", "create CSIStorageCapacity", "create CSIDriver")
	reconcile()
	if err := w.Client.Create(t.Context(), stored("a", "ssd", "2Gi")); err != nil {
		t.Fatal(err)
	}
	reconcile("patch CSIStorageCapacity")
	if err := w.Client.Delete(t.Context(), virtual()); err != nil {
		t.Fatal(err)
	}
	reconcile("delete CSIDriver", "delete CSIStorageCapacity", "delete CSIStorageCapacity")
	reconcile()
}

func TestStorageObjectsAreDeletedByUID(t *testing.T) {
	w := newWorld(t, withMilan()...)
	class := virtual()
	class.UID = "uid-of-class"
	if err := w.rome.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	preconditions := map[string]string{}
	w.Client = interceptor.NewClient(w.rome.Controller, interceptor.Funcs{Delete: func(
		ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption,
	) error {
		applied := (&client.DeleteOptions{}).ApplyOptions(options)
		kind := fmt.Sprintf("%T", object)
		if preconditions[kind] = "none"; applied.Preconditions != nil && applied.Preconditions.UID != nil {
			preconditions[kind] = string(*applied.Preconditions.UID)
		}
		return c.Delete(ctx, object, options...)
	}})
	capacity := w.capacity()
	reconcile := func() {
		t.Helper()
		if _, err := capacity.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	published := &storagev1.CSIDriver{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Name: v1alpha1.StorageProvisioner}, published); err != nil {
		t.Fatal(err)
	}
	if err := w.rome.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	reconcile()
	want := string(published.UID)
	if got := preconditions["*v1.CSIDriver"]; got != want || want == "" {
		t.Errorf("CSIDriver %q is deleted with UID %s", want, got)
	}
	again := virtual()
	again.UID = "uid-of-class"
	if err := w.rome.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := HandBack(t.Context(), w.Client, again.Name, storageNS); err != nil {
		t.Fatal(err)
	}
	if got := preconditions["*v1.StorageClass"]; got != "uid-of-class" {
		t.Errorf("StorageClass is deleted with UID %s", got)
	}
}

func TestRefusalEndsWhenTheQuotaChanges(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world, *clocktesting.FakePassiveClock)
		want   string
	}{
		{name: "nothing changed", change: func(*world, *clocktesting.FakePassiveClock) {}, want: "1073741823"},
		{name: "later", change: func(_ *world, clock *clocktesting.FakePassiveClock) { clock.SetTime(clock.Now().Add(refusedFor)) }, want: "9Gi"},
		{name: "another quota", change: func(w *world, _ *clocktesting.FakePassiveClock) {
			change(w, naming.PeerNamespace("milan"), "milan", &v1alpha1.VirtualNode{}, func(node *v1alpha1.VirtualNode) {
				node.Status.Storage[corev1.ResourceRequestsStorage] = resource.MustParse("20Gi")
			})
		}, want: "19Gi"},
		{name: "deleted volume", change: func(w *world, _ *clocktesting.FakePassiveClock) {
			change(w, "", "a", &corev1.PersistentVolume{}, func(pv *corev1.PersistentVolume) {
				pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("512Mi")
			})
		}, want: "9728Mi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, withMilan(virtual(), stored("a", "ssd", "1Gi"))...)
			published := w.capacity()
			clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
			published.Clock = clock
			if err := published.Lower(t.Context(), "milan", 1<<30); err != nil {
				t.Fatal(err)
			}
			test.change(w, clock)
			if _, err := published.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			got := get(w, storageNS, capacity("liqo", milanID, 0, storageNS).Name, &storagev1.CSIStorageCapacity{})
			if want := resource.MustParse(test.want); got.Capacity.Cmp(want) != 0 {
				t.Errorf("got %s, want %s", got.Capacity, test.want)
			}
		})
	}
}
