// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/storagequota"
)

var (
	userClaim = key{claims, "shop", "data-db-0"}
	described = key{virtualVolumes, "shop", "data-db-0"}
	remotePod = key{pods1, remoteNamespace, "db-0"}
)

func one[T object](s *store, resource key) (T, bool) {
	all := of[T](s, resource)
	if len(all) != 1 {
		var none T
		return none, false
	}
	return all[0], true
}

// until waits until check returns true. It locks the stores of both clusters during the check.
func (w *storageWorld) until(what string, check func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 10*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			for _, c := range []*cluster{w.rome, w.milan} {
				c.store.mu.Lock()
				defer c.store.mu.Unlock()
			}
			return check(), nil
		})
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// left returns the keys of all objects in both clusters, except the CSI objects that controllers
// publish for the scheduler.
func (w *storageWorld) left() []string {
	var left []string
	for _, c := range []*cluster{w.rome, w.milan} {
		for _, k := range c.store.keys(func(k key) bool { return !strings.HasPrefix(k.resource.Resource, localPart) }) {
			left = append(left, c.name+" "+k.String())
		}
	}
	return left
}

// createClaim creates a claim of the virtual class, as a user does.
func (w *storageWorld) createClaim() {
	w.Helper()
	w.add(w.rome, userClaim, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
}

func (w *storageWorld) delete(c *cluster, k key) {
	w.Helper()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if err := c.store.delete(k, nil); err != nil {
		w.Error(err)
	}
}

// change updates an object as a user does.
func change[T object](w *storageWorld, c *cluster, k key, change func(T)) {
	w.Helper()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	found, err := c.store.get(k)
	if err == nil {
		change(found.(T))
		_, err = c.store.update(k, found, "")
	}
	if err != nil {
		w.Error(err)
	}
}

// stores returns a function that reports whether all objects of the claim on both clusters are
// bound with this size, and whether milan's ledger counts this size.
func (w *storageWorld) stores(size string) func() bool {
	wanted := resource.MustParse(size)
	same := func(quantity *resource.Quantity) bool { return quantity != nil && quantity.Cmp(wanted) == 0 }
	return func() bool {
		claim, ok1 := w.rome.store.objects[userClaim].(*corev1.PersistentVolumeClaim)
		virtual, ok2 := w.rome.store.objects[described].(*v1alpha1.VirtualVolume)
		pv, ok3 := one[*corev1.PersistentVolume](w.rome.store, key{resource: volumes})
		shadow, ok4 := one[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})
		backing, ok5 := one[*corev1.PersistentVolumeClaim](w.milan.store, key{resource: claims})
		stored, ok6 := one[*corev1.PersistentVolume](w.milan.store, key{resource: volumes})
		if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 {
			return false
		}
		return claim.Status.Phase == corev1.ClaimBound && same(claim.Status.Capacity.Storage()) &&
			len(claim.Status.Conditions) == 0 &&
			virtual.Status.Phase == v1alpha1.VirtualVolumeBound && same(virtual.Status.Capacity) &&
			same(pv.Spec.Capacity.Storage()) && shadow.Status.Phase == v1alpha1.ShadowVolumeClaimBound &&
			same(shadow.Status.Capacity) &&
			shadow.Name == backing.Name && same(backing.Status.Capacity.Storage()) && same(stored.Spec.Capacity.Storage()) &&
			stored.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && same(taken(shadow))
	}
}

// taken returns the storage that a ShadowVolumeClaim uses of its consumer's quota.
func taken(shadow *v1alpha1.ShadowVolumeClaim) *resource.Quantity {
	var internal federation.ShadowVolumeClaim
	if err := v1alpha1.Convert_v1alpha1_ShadowVolumeClaim_To_federation_ShadowVolumeClaim(shadow, &internal,
		nil); err != nil {
		panic(err)
	}
	sum := corev1.ResourceList{}
	quota.Add(sum, storagequota.Uses(&internal))
	return ptr.To(sum[corev1.ResourceRequestsStorage])
}

// mount waits until the claim is bound, and creates a remote pod on milan that mounts it.
func (w *storageWorld) mount() {
	w.Helper()
	var name string
	w.until("the claim is bound in rome", func() bool {
		claim, ok := w.rome.store.objects[userClaim].(*corev1.PersistentVolumeClaim)
		shadow, one := one[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})
		if ok && one {
			name = shadow.Name
		}
		return ok && one && claim.Status.Phase == corev1.ClaimBound
	})
	w.add(w.milan, remotePod, &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "worker", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

// lives creates and deletes a claim, while the process of the cluster faulty is killed at a write.
// It returns the number of writes by cluster.
func lives(t *testing.T, mode storagev1.VolumeBindingMode, policy corev1.PersistentVolumeReclaimPolicy, faulty string,
	f fault) map[string]int {
	t.Helper()
	w := newStorageWorld(t, mode, policy)
	for _, c := range []*cluster{w.rome, w.milan} {
		if c.name == faulty {
			c.fault = f
		}
	}
	before := w.left()
	w.start()
	w.createClaim()
	w.mount()
	w.until("1Gi is stored on milan", w.stores("1Gi"))
	change(w, w.rome, userClaim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	})
	w.until("2Gi are stored on milan", w.stores("2Gi"))
	w.delete(w.rome, userClaim)
	if policy == corev1.PersistentVolumeReclaimRetain {
		w.delete(w.milan, remotePod)
		w.until("the volume is released and kept", func() bool {
			pv, ok := one[*corev1.PersistentVolume](w.rome.store, key{resource: volumes})
			_, described := w.rome.store.objects[described]
			return ok && pv.Status.Phase == corev1.VolumeReleased && !described && w.milan.deleted == 0
		})
		var name string
		w.until("the volume exists", func() bool {
			pv, ok := one[*corev1.PersistentVolume](w.rome.store, key{resource: volumes})
			name = pv.GetName()
			return ok
		})
		w.delete(w.rome, key{volumes, "", name})
		w.until("milan keeps the data of a deleted claim", func() bool {
			pv, ok := one[*corev1.PersistentVolume](w.milan.store, key{resource: volumes})
			return ok && pv.Status.Phase == corev1.VolumeReleased &&
				len(of[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})) == 0 &&
				len(w.left()) == len(before)+1 && w.milan.deleted == 0
		})
	} else {
		w.until("the deletion waits for the pod", func() bool {
			shadow, ok := one[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})
			return ok && shadow.DeletionTimestamp != nil && w.milan.deleted == 0
		})
		w.delete(w.milan, remotePod)
		w.returns(before)
	}
	w.once()
	return map[string]int{"rome": int(w.rome.writes.Load()), "milan": int(w.milan.writes.Load())}
}

// once fails the test unless milan's provisioner has created exactly one volume.
func (w *storageWorld) once() {
	w.Helper()
	w.milan.store.mu.Lock()
	defer w.milan.store.mu.Unlock()
	if w.milan.provisioned != 1 {
		w.Errorf("milan created %d volumes", w.milan.provisioned)
	}
}

// returns waits until both clusters have exactly the objects whose keys are in before.
func (w *storageWorld) returns(before []string) {
	w.Helper()
	defer func() {
		if w.Failed() {
			w.Logf("left (-before +now):\n%s", cmp.Diff(before, w.left()))
		}
	}()
	w.until("nothing is left", func() bool { return cmp.Equal(before, w.left()) })
}

func TestClaimIsStoredOnceAndLeavesNothingWhereverItsProcessesAreKilled(t *testing.T) {
	for _, test := range []struct {
		mode   storagev1.VolumeBindingMode
		policy corev1.PersistentVolumeReclaimPolicy
	}{
		{storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete},
		{storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete},
		{storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain},
	} {
		writes := lives(t, test.mode, test.policy, "", fault{})
		t.Logf("%s %s: %v writes", test.mode, test.policy, writes)
		for name, count := range writes {
			for number := 1; number <= count; number += every() {
				for _, lost := range []bool{false, true} {
					f := fault{number, lost}
					t.Run(fmt.Sprintf("%s %s/%s ends %s", test.mode, test.policy, name, f), func(t *testing.T) {
						t.Parallel()
						lives(t, test.mode, test.policy, name, f)
					})
				}
			}
		}
	}
}

// provisioningWrites is a lower limit of rome's writes until a claim is bound.
const provisioningWrites = 8

func TestClaimThatIsDeletedWhileItsControllersAreDownLeavesNothing(t *testing.T) {
	for number := 1; number <= provisioningWrites; number += min(every(), 3) {
		for _, lost := range []bool{false, true} {
			f := fault{number, lost}
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				w := newStorageWorld(t, storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete)
				before := w.left()
				w.createClaim()
				gone := make(chan struct{})
				w.rome.fault, w.rome.ended = f, func() {
					w.delete(w.rome, userClaim)
					close(gone)
				}
				w.start()
				<-gone
				w.returns(before)
			})
		}
	}
}

func TestClaimOfAVirtualNodeThatIsRemovedIsProvisionedElsewhere(t *testing.T) {
	for number := 1; number <= provisioningWrites; number += min(every(), 3) {
		for _, cut := range []bool{false, true} {
			f := fault{number, true}
			t.Run(fmt.Sprintf("%s, milan is unreachable %t", f, cut), func(t *testing.T) {
				t.Parallel()
				w := newStorageWorld(t, storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete)
				w.createClaim()
				w.rome.fault, w.rome.ended = f, func() {
					w.cut.Store(cut)
					w.delete(w.rome, key{virtualNodes, naming.PeerNamespace("milan"), "milan"})
					w.delete(w.rome, key{nodes, "", virtualNode})
				}
				w.start()
				var isRemote bool
				w.until("the claim is bound to one volume", func() bool {
					claim, ok := w.rome.store.objects[userClaim].(*corev1.PersistentVolumeClaim)
					pv, single := one[*corev1.PersistentVolume](w.rome.store, key{resource: volumes})
					isRemote = single && pv.Spec.CSI != nil
					_, exists := w.rome.store.objects[key{nodes, "", virtualNode}]
					return ok && single && !exists && claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name
				})
				w.cut.Store(false)
				w.until("milan keeps a claim only for a volume", func() bool {
					return len(of[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})) == 1 == isRemote &&
						len(of[*corev1.PersistentVolumeClaim](w.milan.store, key{resource: claims})) == 1 == isRemote
				})
				w.delete(w.rome, userClaim)
				w.until("nothing is left", func() bool {
					return len(of[*corev1.PersistentVolume](w.rome.store, key{resource: volumes})) == 0 &&
						len(of[*v1alpha1.ShadowVolumeClaim](w.milan.store, key{resource: shadowClaims})) == 0
				})
			})
		}
	}
}
