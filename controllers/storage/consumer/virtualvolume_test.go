// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/volume"
)

func (w *world) describe(times int) {
	w.t.Helper()
	for range times {
		if _, err := (&VirtualVolumes{Config: w.Config}).Reconcile(w.t.Context(), dataRequest); err != nil {
			w.t.Fatal(err)
		}
	}
}

func mounting(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
		}}}},
	}
}

func TestVirtualVolumeDescribesTheClaimOfItsName(t *testing.T) {
	unreachable := milan()
	unreachable[0].(*v1alpha1.ForeignCluster).Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionOutgoingPeering, Status: metav1.ConditionFalse, Reason: "ProviderUnreachable",
	}}
	left, revoked := milan(), milan()
	left[0].(*v1alpha1.ForeignCluster).Status.OutgoingPeering = v1alpha1.PeeringDisconnecting
	left[0].(*v1alpha1.ForeignCluster).Spec.Outgoing = v1alpha1.PeeringDisabled
	revoked[0].(*v1alpha1.ForeignCluster).Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: identity.ReasonIdentityRevoked,
	}}
	onMilan := &v1alpha1.VolumeLocation{
		ClusterName: "milan", ClusterID: milanID, StorageClassName: "ssd", VolumeName: "a", Namespace: milanSpace,
		ClaimName: shadowName,
	}
	foreign := stored("a", "ssd", "1Gi")
	foreign.Spec.ClaimRef.Namespace = "crm"
	notPeered := *onMilan
	notPeered.ClusterName = ""
	for _, test := range []struct {
		name     string
		claim    *corev1.PersistentVolumeClaim
		objects  []client.Object
		phase    v1alpha1.VirtualVolumePhase
		location *v1alpha1.VolumeLocation
		ready    bool
		reason   string
	}{
		{name: "no pod yet", claim: userClaim(), phase: "WaitingForFirstConsumer", reason: "WaitingForFirstConsumer"},
		{name: "not supported",
			claim: userClaim(func(claim *corev1.PersistentVolumeClaim) { claim.Spec.Selector = &metav1.LabelSelector{} }),
			phase: "WaitingForFirstConsumer", reason: "ProvisioningFailed"},
		{name: "a node is selected", claim: userClaim(selected("worker")), phase: "Provisioning", reason: "Provisioning"},
		{
			name: "local", claim: userClaim(bound("a")), objects: []client.Object{reboundVolume()}, phase: "Bound", ready: true,
			reason:   "VolumeBound",
			location: &v1alpha1.VolumeLocation{ClusterID: romeID, StorageClassName: "local", VolumeName: "a"},
		},
		{
			name: "on milan", claim: userClaim(bound("a")), objects: withMilan(stored("a", "ssd", "1Gi")),
			phase: "Bound", ready: true,
			reason: "VolumeBound", location: onMilan,
		},
		{
			name: "on milan, unreachable", claim: userClaim(bound("a")), objects: append(unreachable, stored("a", "ssd", "1Gi")),
			phase: "Bound", reason: "ProviderUnreachable", location: onMilan,
		},
		{
			name: "on milan, peering ends", claim: userClaim(bound("a")), objects: append(left, stored("a", "ssd", "1Gi")),
			phase: "Bound", reason: "ProviderNotPeered", location: onMilan,
		},
		{
			name: "on milan, which revoked the identity", claim: userClaim(bound("a")),
			objects: append(revoked, stored("a", "ssd", "1Gi")),
			phase:   "Bound", reason: "ProviderNotPeered", location: onMilan,
		},
		{
			name: "on a cluster without peering", claim: userClaim(bound("a")),
			objects: []client.Object{stored("a", "ssd", "1Gi")},
			phase:   "Bound", reason: "ProviderNotPeered", location: &notPeered,
		},
		{
			name:    "a volume of another namespace",
			claim:   userClaim(func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = "a" }),
			objects: withMilan(foreign),
			phase:   "Provisioning", reason: "Provisioning",
		},
		{
			name:  "lost",
			claim: userClaim(bound("a"), func(claim *corev1.PersistentVolumeClaim) { claim.Status.Phase = corev1.ClaimLost }),
			phase: "Lost", reason: "VolumeLost",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, virtual(), test.claim)...)
			w.describe(2)
			got := get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
			if diff := cmp.Diff(test.location, got.Status.Location); got.Status.Phase != test.phase || diff != "" {
				t.Errorf("phase %s; location (-want +got):\n%s", got.Status.Phase, diff)
			}
			ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionVolumeReady)
			if ready == nil || ready.Reason != test.reason || (ready.Status == metav1.ConditionTrue) != test.ready {
				t.Errorf("Ready is %+v", ready)
			}
			if len(got.OwnerReferences) > 0 {
				t.Error("the virtual volume has an owner")
			}
			w.rome.Writes = nil
			w.describe(1)
			if len(w.writes()) > 0 {
				t.Errorf("writes without a change: %v", w.writes())
			}
		})
	}
}

func TestVirtualVolumeNamesPodsThatMountTheClaim(t *testing.T) {
	objects := []client.Object{virtual(), userClaim(bound("a")), reboundVolume(), mounting("waits", ""),
		mounting("b", "worker"), mounting("a", "worker")}
	ended := mounting("ended", "worker")
	ended.Status.Phase = corev1.PodSucceeded
	w := newWorld(t, append(objects, ended)...)
	w.describe(2)
	got := get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
	if diff := cmp.Diff([]string{"a", "b"}, got.Status.MountedBy); diff != "" {
		t.Errorf("mountedBy (-want +got):\n%s", diff)
	}
	for i := range 20 {
		if err := w.Client.Create(t.Context(), mounting(fmt.Sprintf("c%02d", i), "worker")); err != nil {
			t.Fatal(err)
		}
	}
	w.describe(1)
	if got := get(w, "shop", "data-db-0", got); len(got.Status.MountedBy) != 16 {
		t.Errorf("mountedBy %v", got.Status.MountedBy)
	}
}

func TestVirtualVolumeIsKeptWhileAMoveRuns(t *testing.T) {
	moved := &v1alpha1.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"},
		Status: v1alpha1.VirtualVolumeStatus{
			Move: &v1alpha1.MoveProgress{ID: "m1", Phase: v1alpha1.MoveSwitching, Passes: 3},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionVolumeMoved, Status: metav1.ConditionUnknown,
				Reason: "Switching"}},
		},
	}
	w := newWorld(t, virtual(), userClaim(), moved)
	w.describe(2)
	got := get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
	if !cmp.Equal(got.Finalizers, []string{v1alpha1.Finalizer}) || got.Status.Phase != v1alpha1.VirtualVolumeMoving ||
		got.Status.Move.Passes != 3 ||
		meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionVolumeMoved) == nil {
		t.Errorf("the virtual volume is %+v", got)
	}
	if err := w.Client.Delete(t.Context(), userClaim()); err != nil {
		t.Fatal(err)
	}
	w.describe(2)
	got = get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
	got.Status.Move.Phase = v1alpha1.MoveFailed
	if err := w.Client.Status().Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	w.describe(2)
	absent(w, "shop", "data-db-0", got)
}

func TestVirtualVolumeOfARestoredStoreExistsWhileVolumesRecordItsMove(t *testing.T) {
	const mark = `{"id":"m","namespace":"shop","claim":"data-db-0","source":"a","policy":"Delete"}`
	terminating := userClaim(func(claim *corev1.PersistentVolumeClaim) {
		claim.DeletionTimestamp, claim.Finalizers = ptr.To(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
	})
	for _, test := range []struct {
		name    string
		mark    string
		objects []client.Object
		exists  bool
	}{
		{name: "lost in a restore", mark: mark, exists: true},
		{name: "lost while the claim is being deleted", mark: mark, objects: []client.Object{terminating}, exists: true},
		{name: "restored without the move", mark: mark, objects: []client.Object{describedVolume()}, exists: true},
		{name: "another claim is moved", mark: `{"id":"m","namespace":"crm","claim":"data-db-0"}`},
		{name: "another claim is moved, restored", mark: `{"id":"m","namespace":"shop","claim":"logs"}`,
			objects: []client.Object{describedVolume()}},
		{name: "malformed", mark: `{`},
		{name: "no move", objects: []client.Object{describedVolume()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			locked := reboundVolume()
			locked.Spec.ClaimRef.Name, locked.Spec.ClaimRef.UID = "move-m-source", "uid-of-source"
			if test.mark != "" {
				locked.Annotations[volume.LabelMove] = test.mark
			}
			w := newWorld(t, append(test.objects, virtual(), locked)...)
			w.describe(3)
			if !test.exists {
				absent(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
				return
			}
			get(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
			if requests := claimOf(t.Context(), locked); !slices.Contains(requests, dataRequest) {
				t.Errorf("the volume enqueues %v", requests)
			}
			if len(test.objects) > 0 && test.objects[0] == client.Object(terminating) {
				return
			}
			change(w, "", "a", &corev1.PersistentVolume{}, func(pv *corev1.PersistentVolume) {
				delete(pv.Annotations, volume.LabelMove)
			})
			w.describe(2)
			absent(w, "shop", "data-db-0", &v1alpha1.VirtualVolume{})
		})
	}
}

// listsOnlySome fails the test if a list of PersistentVolumes uses no index, because that copies all of them.
func listsOnlySome(
	ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
) error {
	_, volumes := list.(*corev1.PersistentVolumeList)
	if volumes && (&client.ListOptions{}).ApplyOptions(options).FieldSelector == nil {
		return errors.New("all volumes are listed")
	}
	return c.List(ctx, list, options...)
}

func TestMovesOfAClaimAreFoundWithoutAListOfAllVolumes(t *testing.T) {
	marked := reboundVolume()
	marked.Annotations[volume.LabelMove] = `{"id":"m","namespace":"shop","claim":"data-db-0","source":"a"}`
	w := newWorld(t, marked)
	config := &Config{Client: interceptor.NewClient(w.rome, interceptor.Funcs{List: listsOnlySome})}
	for name, want := range map[string]bool{"data-db-0": true, "logs": false} {
		moved, err := config.moved(t.Context(), types.NamespacedName{Namespace: "shop", Name: name})
		if err != nil || moved != want {
			t.Errorf("claim %s is moved: %t, error %v", name, moved, err)
		}
	}
}

func TestClaimsOfMovesAndOfOtherClassesHaveNoVirtualVolume(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"a move":        func(claim *corev1.PersistentVolumeClaim) { claim.Labels = map[string]string{volume.LabelMove: "m1"} },
		"another class": func(claim *corev1.PersistentVolumeClaim) { *claim.Spec.StorageClassName = "local" },
		"no class":      func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = nil },
	} {
		w := newWorld(t, virtual(), local(), userClaim(change))
		w.describe(2)
		if len(w.writes()) > 0 {
			t.Errorf("%s leads to %v", name, w.writes())
		}
	}
}

func TestPodsAreWarnedOnceOfAClusterThatIsUnreachableExcludedOrCordoned(t *testing.T) {
	offloading := func(strategy v1alpha1.PodOffloadingStrategy, zone string) *v1alpha1.NamespaceOffloading {
		return &v1alpha1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: v1alpha1.NamespaceOffloadingName},
			Spec: v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy, ClusterSelector: corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
				}}}},
			}},
		}
	}
	for _, test := range []struct {
		name        string
		offloading  client.Object
		unreachable bool
		// change modifies the Node of milan.
		change func(*corev1.Node)
		event  string
	}{
		{name: "selected", offloading: offloading(v1alpha1.LocalAndRemote, "north")},
		{name: "unreachable", offloading: offloading(v1alpha1.LocalAndRemote, "north"), unreachable: true, event: "Warning VolumeClusterUnreachable Claim data-db-0: The data is stored on milan"},
		{name: "not selected", offloading: offloading(v1alpha1.LocalAndRemote, "south"), event: "Warning VolumeClusterExcluded The data of claim data-db-0 is stored on milan"},
		{name: "local", offloading: offloading(v1alpha1.Local, "north"), event: "Warning VolumeClusterExcluded"},
		{name: "cordoned", offloading: offloading(v1alpha1.LocalAndRemote, "north"), change: func(node *corev1.Node) { node.Spec.Unschedulable = true }, event: "Warning VolumeClusterCordoned The data of claim data-db-0 is stored on milan, whose virtual nodes are cordoned"},
		{name: "cordoned by milan", offloading: offloading(v1alpha1.LocalAndRemote, "north"),
			change: func(node *corev1.Node) {
				node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
			}, event: "Warning VolumeClusterCordoned The data of claim data-db-0 is stored on milan, whose administrator " +
				"offers no pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := withMilan(virtual(), userClaim(bound("a")), stored("a", "ssd", "1Gi"), mounting("db-0", ""),
				mounting("runs", milanNode), test.offloading)
			if test.unreachable {
				objects[0].(*v1alpha1.ForeignCluster).Status.Conditions = []metav1.Condition{{Type: "Ready",
					Status: metav1.ConditionFalse, Reason: "ProviderUnreachable"}}
			}
			w := newWorld(t, objects...)
			if test.change != nil {
				change(w, "", milanNode, &corev1.Node{}, test.change)
			}
			v := &VirtualVolumes{Config: w.Config}
			for range 4 {
				if _, err := v.Reconcile(t.Context(), dataRequest); err != nil {
					t.Fatal(err)
				}
			}
			if test.event != "" {
				w.expectEvent(test.event)
			} else if events := w.rome.Recorded(); len(events) > 0 {
				t.Errorf("events %q", events)
			}
		})
	}
}

func TestExpansionGrowsTheProvidersVolumeFirst(t *testing.T) {
	claim := userClaim(bound("a"), func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	})
	w := newWorld(t, withMilan(virtual(), claim, stored("a", "ssd", "1Gi"))...)
	one := resource.MustParse("1Gi")
	w.store(func(kept *v1alpha1.ShadowVolumeClaim) {
		kept.Spec.Storage, kept.Status.Capacity, kept.Status.Phase = one, &one, v1alpha1.ShadowVolumeClaimBound
	})
	expand := func() {
		t.Helper()
		// Each reconcile has a new controller, as after a restart.
		if _, err := (&Expander{Config: w.Config, Clock: clock.RealClock{}}).Reconcile(t.Context(), dataRequest); err != nil {
			t.Fatal(err)
		}
	}
	expand()
	if kept := w.kept(); kept.Spec.Storage.String() != "2Gi" {
		t.Errorf("milan is requested %s", &kept.Spec.Storage)
	}
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept != nil && kept.Spec.Storage.String() == "2Gi" })
	expand()
	got := get(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{})
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != corev1.PersistentVolumeClaimResizing {
		t.Errorf("conditions %+v", got.Status.Conditions)
	}
	w.answer(func(kept *v1alpha1.ShadowVolumeClaim) { *kept.Status.Capacity = resource.MustParse("2Gi") })
	w.rome.Writes = nil
	expand()
	expand()
	expand()
	if diff := cmp.Diff([]string{"patch PersistentVolume", "patch status PersistentVolumeClaim"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	got = get(w, "shop", "data-db-0", got)
	if pv := get(w, "", "a", &corev1.PersistentVolume{}); got.Status.Capacity.Storage().String() != "2Gi" ||
		pv.Spec.Capacity.Storage().String() != "2Gi" || len(got.Status.Conditions) > 0 {
		t.Errorf("claim %+v, volume %+v", got.Status, pv.Spec.Capacity)
	}
	w.expectEvent("Normal VolumeResizeSuccessful The volume was expanded to 2Gi.")
}

func TestExpansionThatFailsIsReportedWithTheReason(t *testing.T) {
	claim := userClaim(bound("a"), func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	})
	w := newWorld(t, withMilan(virtual(), claim, stored("a", "ssd", "1Gi"))...)
	one := resource.MustParse("1Gi")
	w.store(func(kept *v1alpha1.ShadowVolumeClaim) {
		kept.Spec.Storage, kept.Status.Capacity = resource.MustParse("2Gi"), &one
		kept.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionVolumeResized, Status: metav1.ConditionFalse,
			Reason: "ResizeFailed", Message: "The disk is full."}}
	})
	e := &Expander{Config: w.Config, Clock: clock.RealClock{}}
	for range 2 {
		if _, err := e.Reconcile(t.Context(), dataRequest); err != nil {
			t.Fatal(err)
		}
	}
	got := get(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{})
	if len(got.Status.Conditions) != 1 ||
		got.Status.Conditions[0].Type != corev1.PersistentVolumeClaimControllerResizeError ||
		got.Status.Conditions[0].Message != "milan: The disk is full." {
		t.Errorf("conditions %+v", got.Status.Conditions)
	}
	w.expectEvent("Warning VolumeResizeFailed milan: The disk is full.")
}
