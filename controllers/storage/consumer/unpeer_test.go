// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

func describedVolume() *v1alpha1.VirtualVolume {
	return &v1alpha1.VirtualVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"}}
}

func offloadedWith(policy v1alpha1.UnoffloadPolicy) *v1alpha1.NamespaceOffloading {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name: v1alpha1.NamespaceOffloadingName}}
	offloading.Spec.Volumes.OnUnoffload = policy
	return offloading
}

func TestUnpeeringReleasesWhatTheOwnersOfDataSelected(t *testing.T) {
	for _, test := range []struct {
		name       string
		offloading *v1alpha1.NamespaceOffloading
		change     func(*corev1.PersistentVolume)
		listed     v1alpha1.UnoffloadPolicy
		moves      bool
		givenUp    bool
	}{
		{name: "a namespace that is not offloaded refuses", listed: v1alpha1.UnoffloadRefuse},
		{name: "Refuse", offloading: offloadedWith(v1alpha1.UnoffloadRefuse), listed: v1alpha1.UnoffloadRefuse},
		{name: "Retain keeps claim and volume", offloading: offloadedWith(v1alpha1.UnoffloadRetain), listed: v1alpha1.UnoffloadRetain},
		{name: "Move", offloading: offloadedWith(v1alpha1.UnoffloadMove), listed: v1alpha1.UnoffloadMove, moves: true},
		{name: "Delete", offloading: offloadedWith(v1alpha1.UnoffloadDelete), listed: v1alpha1.UnoffloadDelete, givenUp: true},
		{
			name: "a volume without a claim is not moved", offloading: offloadedWith(v1alpha1.UnoffloadMove), listed: "",
			change: func(pv *corev1.PersistentVolume) {
				pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{virtual(), userClaim(bound("a")), stored("a", "ssd", "1Gi"), describedVolume()}
			if test.offloading != nil {
				objects = append(objects, test.offloading)
			}
			w := newWorld(t, withMilan(objects...)...)
			if test.change != nil {
				change(w, "", "a", &corev1.PersistentVolume{}, test.change)
			}
			u, milan := &Unoffloader{Config: w.Config}, get(w, "", "milan", &v1alpha1.ForeignCluster{})
			listed, err := u.StoredBy(t.Context(), milan)
			if err != nil || (len(listed) == 1) != (test.listed != "") {
				t.Fatalf("listed %+v, %v", listed, err)
			}
			if len(listed) == 1 && (listed[0].OnUnoffload != test.listed || listed[0].Namespace != "shop" ||
				listed[0].Name != "data-db-0") {
				t.Errorf("listed %+v", listed[0])
			}
			for _, policy := range []v1alpha1.UnoffloadPolicy{v1alpha1.UnoffloadMove, v1alpha1.UnoffloadDelete} {
				if err := u.ReleaseAll(t.Context(), milan, policy); err != nil {
					t.Fatal(err)
				}
			}
			if move := get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{}).Spec.Move; (move != nil) != test.moves {
				t.Errorf("move %+v", move)
			}
			if pv := get(w, "", "a", &corev1.PersistentVolume{}); (pv.Spec.ClaimRef.UID != claimUID) != test.givenUp {
				t.Errorf("the volume names claim %s", pv.Spec.ClaimRef.UID)
			}
		})
	}
}

func TestErrorForOneVolumeDoesNotDelayTheOthers(t *testing.T) {
	for _, unpeers := range []bool{false, true} {
		t.Run(fmt.Sprintf("unpeers %t", unpeers), func(t *testing.T) {
			w := newWorld(t, withMilan(virtual(), stored("a", "ssd", "1Gi"), stored("b", "ssd", "1Gi"),
				stored("c", "ssd", "1Gi"), offloadedWith(v1alpha1.UnoffloadDelete))...)
			refused := apierrors.NewForbidden(corev1.Resource("persistentvolumes"), "b", errors.New("by a policy"))
			w.rome.Fault = func(write kittest.Write, done bool) error {
				if write.Name == "b" && !done {
					return refused
				}
				return nil
			}
			u := &Unoffloader{Config: w.Config}
			release := func() error {
				if unpeers {
					return u.ReleaseAll(t.Context(), get(w, "", "milan", &v1alpha1.ForeignCluster{}), v1alpha1.UnoffloadDelete)
				}
				return u.Release(t.Context(), offloadedWith(v1alpha1.UnoffloadDelete), "milan")
			}
			if err := release(); !apierrors.IsForbidden(err) {
				t.Errorf("got %v", err)
			}
			for name, want := range map[string]bool{"a": true, "b": false, "c": true} {
				if pv := get(w, "", name, &corev1.PersistentVolume{}); (pv.Spec.ClaimRef.UID == pv.UID) != want {
					t.Errorf("volume %s is detached: %t", name, !want)
				}
			}
		})
	}
}

func TestVolumeOfAMoveIsReleasedOnlyAfterTheMove(t *testing.T) {
	ofClaim := func(name string, uid types.UID) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = name, uid }
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.PersistentVolume)
	}{
		{"source during the copy", ofClaim("data-db-0", claimUID)},
		{"locked source", ofClaim("move-m-source", "uid-of-source")},
		{"target during the copy", ofClaim("move-m-target", "uid-of-target")},
		{"target without a claim", ofClaim("data-db-0", "")},
		{"source that an earlier version detached", ofClaim("data-db-0", "uid-of-volume")},
		{"released source", func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }},
	} {
		for _, policy := range []v1alpha1.UnoffloadPolicy{
			v1alpha1.UnoffloadMove, v1alpha1.UnoffloadRetain, v1alpha1.UnoffloadDelete,
		} {
			t.Run(test.name+", "+string(policy), func(t *testing.T) {
				pv := stored("a", "ssd", "1Gi")
				pv.Annotations[volume.LabelMove] = `{"id":"m"}`
				test.change(pv)
				w := newWorld(t, withMilan(virtual(), userClaim(bound("a")), pv, describedVolume(), offloadedWith(policy))...)
				before := get(w, "", "a", &corev1.PersistentVolume{})
				u, milan := &Unoffloader{Config: w.Config}, get(w, "", "milan", &v1alpha1.ForeignCluster{})
				for range 2 {
					if err := u.Release(t.Context(), offloadedWith(policy), "milan"); err != nil {
						t.Fatal(err)
					}
					if err := u.ReleaseAll(t.Context(), milan, policy); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(before, get(w, "", "a", &corev1.PersistentVolume{})); diff != "" || len(w.writes()) > 0 {
					t.Errorf("writes %v; the volume (-before +after):\n%s", w.writes(), diff)
				}
				if held, err := u.Held(t.Context(), "shop", "milan"); err != nil || len(held) != 1 {
					t.Errorf("held %v, %v", held, err)
				}
				change(w, "", "a", &corev1.PersistentVolume{}, func(pv *corev1.PersistentVolume) {
					delete(pv.Annotations, volume.LabelMove)
					pv.Spec.ClaimRef, pv.Status.Phase = claimReference(userClaim()), corev1.VolumeBound
				})
				if err := u.Release(t.Context(), offloadedWith(policy), "milan"); err != nil {
					t.Fatal(err)
				}
				if len(w.writes()) != 1 {
					t.Errorf("writes after the move: %v", w.writes())
				}
			})
		}
	}
}

func TestDataThatCannotBeMovedIsReportedWithFieldAndRemedy(t *testing.T) {
	kind := schema.GroupKind{Group: v1alpha1.GroupName, Kind: "Move"}
	refused := apierrors.NewInvalid(kind, "data-db-0", field.ErrorList{
		field.Required(field.NewPath("spec", "target", "storageClassName"),
			"localStorageClassName of the claim's StorageClass names none that exists, or it is empty and this cluster has "+
				"no default StorageClass; name one"),
	})
	failed := func(vvol *v1alpha1.VirtualVolume) {
		vvol.Spec.Move = &v1alpha1.RequestedMove{ID: "m",
			MoveSpec: v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{Local: true}}}
		vvol.Status.Move = &v1alpha1.MoveProgress{ID: "m", Phase: v1alpha1.MoveFailed, Message: "The target is full."}
	}
	for _, test := range []struct {
		name    string
		refusal error
		change  func(*v1alpha1.VirtualVolume)
		want    []string
		writes  int
	}{
		{name: "accepted move", writes: 1},
		{
			name:   "a claim that represents one of the provider",
			change: func(vvol *v1alpha1.VirtualVolume) { vvol.Name = "other" },
			want:   []string{"The data of shop/data-db-0 is not moved: ", "delete it and its PersistentVolume"},
		},
		{
			name: "a request that is refused writes nothing", refusal: refused,
			want: []string{"The data of shop/data-db-0 is not moved: ", "spec.target.storageClassName", "name one"},
		},
		{name: "failed move", change: failed, want: []string{"The target is full.", "POST"}},
		{name: "refused move that is repeated", refusal: apierrors.NewConflict(schema.GroupResource{}, "data-db-0", nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			vvol := describedVolume()
			if test.change != nil {
				test.change(vvol)
			}
			w := newWorld(t, withMilan(virtual(), userClaim(bound("a")), stored("a", "ssd", "1Gi"), vvol)...)
			w.refusal = test.refusal
			u := &Unoffloader{Config: w.Config}
			if err := u.Release(t.Context(), offloadedWith(v1alpha1.UnoffloadMove), "milan"); err != nil {
				t.Fatal(err)
			}
			texts := strings.Join(u.Obstacles("shop", "milan"), " ")
			if len(w.writes()) != test.writes || (texts != "") != (len(test.want) > 0) {
				t.Fatalf("writes %v, obstacles %q", w.writes(), texts)
			}
			for _, want := range test.want {
				if !strings.Contains(texts, want) {
					t.Errorf("the obstacles lack %q: %s", want, texts)
				}
			}
			if all := u.Obstacles("", "milan"); strings.Join(all, " ") != texts {
				t.Errorf("of all namespaces: %v", all)
			}
			if diff := cmp.Diff([]string(nil), u.Obstacles("shop", "naples")); diff != "" {
				t.Errorf("of another provider (-want +got):\n%s", diff)
			}
			w.refusal = nil
			if err := u.Release(t.Context(), offloadedWith(v1alpha1.UnoffloadMove), "milan"); err != nil {
				t.Fatal(err)
			}
			if test.change == nil && len(u.Obstacles("shop", "milan")) > 0 {
				t.Error("an obstacle that is removed is still reported")
			}
		})
	}
}
