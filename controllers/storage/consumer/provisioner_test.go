// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/test/fakes"
)

// provisioner returns the controller under test.
func (w *world) provisioner() *Provisioner {
	return w.provisionerOf(w.capacity())
}

func (w *world) provisionerOf(capacity *Capacity) *Provisioner {
	return &Provisioner{
		Config: w.Config, Capacity: capacity, refusals: flowcontrol.NewBackOff(minRefusalDelay, maxRefusalDelay),
	}
}

func (w *world) capacity() *Capacity {
	return &Capacity{Config: w.Config, Published: kittest.Cached(w.Client), Clock: clock.RealClock{}}
}

func (w *world) provision(p *Provisioner) {
	w.t.Helper()
	if _, err := p.Reconcile(w.t.Context(), dataRequest); err != nil {
		w.t.Fatal(err)
	}
}

// driveLocal does the work of the local driver and of Kubernetes: it binds the intermediate claim to a volume, and the
// user's claim to the volume that names it.
func (w *world) driveLocal() {
	w.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := errors.Join(w.Client.List(w.t.Context(), &claims), w.Client.List(w.t.Context(), &volumes)); err != nil {
		w.t.Fatal(err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Namespace == storageNS && claim.Spec.VolumeName == "" {
			pv := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pvc-of-driver",
					Annotations: map[string]string{volume.AnnotationProvisionedBy: "local.example.com"}},
				Spec: corev1.PersistentVolumeSpec{
					StorageClassName: "local", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, ClaimRef: claimReference(claim),
				},
				Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
			}
			if err := w.Client.Create(w.t.Context(), pv); err != nil {
				w.t.Fatal(err)
			}
			change(w, claim.Namespace, claim.Name, claim, bound(pv.Name))
		}
	}
	for i := range volumes.Items {
		reference := volumes.Items[i].Spec.ClaimRef
		if reference.Namespace == dataDB0.Namespace {
			change(w, dataDB0.Namespace, dataDB0.Name, &corev1.PersistentVolumeClaim{}, bound(volumes.Items[i].Name))
		}
	}
}

func TestClaimOnALocalNodeGetsTheVolumeOfItsIntermediateClaim(t *testing.T) {
	w := newWorld(t, virtual(), local(), worker(), userClaim(selected("worker")))
	p := w.provisioner()
	for range 2 {
		w.provision(p)
	}
	intermediate := get(w, storageNS, volume.VolumeName(claimUID), &corev1.PersistentVolumeClaim{})
	if *intermediate.Spec.StorageClassName != "local" ||
		intermediate.Annotations[volume.AnnotationSelectedNode] != "worker" {
		t.Errorf("the intermediate claim is %+v", intermediate)
	}
	w.expectEvent("Normal Provisioning Provisioning a volume of StorageClass local")
	w.driveLocal()
	w.provision(p)
	pv := get(w, "", "pvc-of-driver", &corev1.PersistentVolume{})
	want := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop",
		Name: "data-db-0", UID: claimUID}
	if diff := cmp.Diff(want, pv.Spec.ClaimRef); diff != "" {
		t.Errorf("claimRef (-want +got):\n%s", diff)
	}
	if pv.Spec.StorageClassName != "liqo" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		pv.Annotations[volume.AnnotationStorageClass] != "local" ||
		pv.Annotations[volume.AnnotationReclaimPolicy] != "Delete" ||
		!cmp.Equal(pv.Finalizers, []string{volume.Finalizer}) {
		t.Errorf("the volume is %+v", pv)
	}
	w.expectEvent("Normal ProvisioningSucceeded Provisioned volume pvc-of-driver of StorageClass local")
	get(w, storageNS, volume.VolumeName(claimUID), intermediate)
	w.driveLocal()
	w.provision(p)
	absent(w, storageNS, volume.VolumeName(claimUID), intermediate)
	w.rome.Writes = nil
	w.provision(p)
	if len(w.writes()) > 0 {
		t.Errorf("a bound claim leads to %v", w.writes())
	}
}

func TestWarningsOfTheProvisionerAreRecordedOnTheUsersClaim(t *testing.T) {
	intermediate := intermediateClaim(userClaim(selected("worker")), "local", storageNS)
	intermediate.UID, intermediate.CreationTimestamp = "uid-of-intermediate", metav1.NewTime(time.Now().Add(-time.Minute))
	w := newWorld(t, virtual(), local(), worker(), userClaim(selected("worker")), intermediate)
	p := w.provisioner()
	warning := func(name, kind, message string, at time.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: storageNS, Name: name}, Type: kind, Message: message,
			LastTimestamp:  metav1.NewTime(at),
			InvolvedObject: corev1.ObjectReference{UID: intermediate.UID},
		}
	}
	for _, event := range []client.Object{
		warning("first", corev1.EventTypeWarning, "no disk", time.Now().Add(-time.Minute)),
		warning("second", corev1.EventTypeWarning, "no space", time.Now()),
		warning("third", corev1.EventTypeNormal, "waiting", time.Now().Add(time.Minute)),
	} {
		if err := w.Client.Create(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		result, err := p.Reconcile(t.Context(), dataRequest)
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("got %v, %v", result, err)
		}
	}
	w.expectEvent("Warning ProvisioningFailed StorageClass local, claim " + intermediate.Name + " in namespace " +
		storageNS + ": no space")
}

func TestProvisioningOnALocalNodeResumesAfterAnyWrite(t *testing.T) {
	for _, late := range []bool{false, true} {
		for kill := range 3 {
			w := newWorld(t, virtual(), local(), worker(), userClaim(selected("worker")))
			killed := false
			for range 10 {
				before := len(w.writes())
				if !killed {
					w.rome.Kill(before, late)
					if kill > 0 {
						w.rome.Fault = nil
					}
				}
				// A new process has no state in memory.
				_, err := w.provisioner().Reconcile(t.Context(), dataRequest)
				if len(w.writes()) > before {
					kill--
				}
				if errors.Is(err, kittest.ErrKilled) {
					killed, w.rome.Fault = true, nil
				} else if err != nil {
					t.Fatal(err)
				}
				w.driveLocal()
			}
			claim := get(w, dataDB0.Namespace, dataDB0.Name, &corev1.PersistentVolumeClaim{})
			if !killed || claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != "pvc-of-driver" {
				t.Errorf("late %t: killed %t; the claim is %s with %q after %v", late, killed, claim.Status.Phase,
					claim.Spec.VolumeName, w.writes())
			}
			absent(w, storageNS, volume.VolumeName(claimUID), &corev1.PersistentVolumeClaim{})
			var volumes corev1.PersistentVolumeList
			if err := w.Client.List(t.Context(), &volumes); err != nil || len(volumes.Items) != 1 {
				t.Errorf("%d volumes, %v", len(volumes.Items), err)
			}
		}
	}
}

func TestClaimOnAVirtualNodeGetsAVolumeOnceTheProviderAccepts(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), userClaim(selected(milanNode)))...)
	p := w.provisioner()
	w.provision(p)
	kept := w.kept()
	want := v1alpha1.ShadowVolumeClaimSpec{
		StorageClassName: "ssd", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Storage: resource.MustParse("1Gi"), DeletionPolicy: v1alpha1.VolumeDeletionRetain,
	}
	if kept == nil {
		t.Fatal("milan has no claim")
	}
	if diff := cmp.Diff(want, kept.Spec); diff != "" {
		t.Errorf("the claim on milan (-want +got):\n%s", diff)
	}
	if kept.Labels[v1alpha1.LabelOrigin] != romeID || kept.Labels[v1alpha1.LabelDestination] != milanID ||
		kept.Annotations[v1alpha1.AnnotationOriginNamespace] != "shop" ||
		kept.Annotations[volume.AnnotationOriginClaim] != "data-db-0" {
		t.Errorf("the claim on milan has %v and %v", kept.Labels, kept.Annotations)
	}
	absent(w, "", volume.VolumeName(claimUID), &corev1.PersistentVolume{})
	w.answer(func(kept *v1alpha1.ShadowVolumeClaim) { kept.Status.Phase = v1alpha1.ShadowVolumeClaimPending })
	w.provision(p)
	pv := get(w, "", volume.VolumeName(claimUID), &corev1.PersistentVolume{})
	handle, isRemote, err := volume.HandleOf(pv)
	if diff := cmp.Diff(volume.Handle{ClusterID: milanID, Namespace: milanSpace, Claim: shadowName}, handle); !isRemote ||
		err != nil || diff != "" {
		t.Errorf("%v; handle (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(volume.RemoteAffinity(milanID, nil), pv.Spec.NodeAffinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if pv.Spec.StorageClassName != "liqo" || pv.Spec.ClaimRef.UID != claimUID ||
		pv.Annotations[volume.AnnotationProvisionedBy] != "storage.liqo.io" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		!cmp.Equal(pv.Finalizers, []string{volume.Finalizer}) {
		t.Errorf("the volume is %+v", pv)
	}
	w.expectEvent("Normal ProvisioningSucceeded")
}

func TestVolumesOfANodeThatIsOfferedByItselfHaveItsTopology(t *testing.T) {
	claim, node := userClaim(), milan()[2].(*corev1.Node)
	virtualNode := &v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: milanID, OfferedNode: "0a1b"}}
	pv := remoteVolume(claim, virtual(), &v1alpha1.ShadowVolumeClaim{}, virtualNode, node)
	if diff := cmp.Diff(volume.RemoteAffinity(milanID, map[string]string{corev1.LabelTopologyZone: "north"}),
		pv.Spec.NodeAffinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
}

func TestVolumeIsCreatedOnceTheProviderIsReady(t *testing.T) {
	condition := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionVolumeBound, Status: metav1.ConditionFalse, Reason: reason,
			Message: "The disk is full."}}
	}
	for _, test := range []struct {
		name    string
		status  v1alpha1.ShadowVolumeClaimStatus
		waiting bool
		event   string
	}{
		{name: "not observed", waiting: true},
		{name: "accepted", status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimPending}},
		{name: "waits for the first pod", status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimPending, Conditions: condition("WaitForFirstConsumer")}},
		{name: "an Immediate class", status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimPending, Conditions: condition("Provisioning")}, waiting: true},
		{
			name: "a failure", status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimPending,
				Conditions: condition("ProvisioningFailed")},
			waiting: true, event: "Warning ProvisioningFailed milan: The disk is full.",
		},
		{name: "bound", status: v1alpha1.ShadowVolumeClaimStatus{Phase: v1alpha1.ShadowVolumeClaimBound}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if got := w.provisioner().waitsFor(userClaim(), &v1alpha1.ShadowVolumeClaim{Status: test.status},
				"milan"); got != test.waiting {
				t.Errorf("waiting %t", got)
			}
			if test.event != "" {
				w.expectEvent(test.event)
			}
		})
	}
}

func TestClaimOfAClassThatIsNoLongerOfferedIsReplaced(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), userClaim(selected(milanNode)))...)
	p := w.provisioner()
	w.provision(p)
	w.answer(func(kept *v1alpha1.ShadowVolumeClaim) {
		kept.Status.Phase = v1alpha1.ShadowVolumeClaimPending
		kept.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionVolumeBound, Status: metav1.ConditionFalse, Reason: shadowProvisioningFailed,
			Message: "The provider has no StorageClass ssd.",
		}}
	})
	w.provision(p)
	if kept := w.kept(); kept == nil || kept.Spec.StorageClassName != "ssd" {
		t.Fatalf("milan has %+v", kept)
	}
	change(w, "liqo-peer-milan", "milan", &v1alpha1.VirtualNode{},
		func(node *v1alpha1.VirtualNode) { node.Status.StorageClasses = []string{"disk"} })
	w.provision(p)
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept == nil })
	w.provision(p)
	if kept := w.kept(); kept == nil || kept.Spec.StorageClassName != "disk" {
		t.Errorf("milan has %+v", kept)
	}
}

func TestProviderWithoutRoomIsPublishedWithLessBeforeTheSchedulerSelectsAgain(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), userClaim(selected(milanNode)))...)
	published := w.capacity()
	p := w.provisionerOf(published)
	if _, err := published.Reconcile(t.Context(), dataRequest); err != nil {
		t.Fatal(err)
	}
	fakes.React(w.milan, "create", "shadowvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := apierrors.NewForbidden(v1alpha1.Resource("shadowvolumeclaims"), shadowName,
			errors.New("the quota does not suffice"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseStorageExceeded, Field: "requests.storage"}}
		return true, nil, err
	})
	w.rome.Writes = nil
	w.provision(p)
	if diff := cmp.Diff([]string{"patch CSIStorageCapacity", "patch PersistentVolumeClaim"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	lowered := get(w, storageNS, capacity("liqo", milanID, 0, storageNS).Name, &storagev1.CSIStorageCapacity{})
	if lowered.Capacity.Value() != 1<<30-1 {
		t.Errorf("milan is published with %s", lowered.Capacity)
	}
	claim := get(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{})
	if claim.Annotations[volume.AnnotationSelectedNode] != "" {
		t.Error("the node is still selected")
	}
	w.expectEvent("Warning ProvisioningFailed milan has no room")

	change(w, "shop", "data-db-0", claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Annotations = map[string]string{volume.AnnotationSelectedNode: milanNode}
	})
	result, err := p.Reconcile(t.Context(), dataRequest)
	if err != nil || result.RequeueAfter <= 0 {
		t.Errorf("after the node was selected again immediately: %v, %v", result, err)
	}
	if events := w.rome.Recorded(); len(events) > 0 {
		t.Errorf("an event is repeated: %q", events)
	}
}

func TestClaimIsRefusedWithTheReason(t *testing.T) {
	offers := func(classes ...string) func([]client.Object) {
		return func(objects []client.Object) { objects[1].(*v1alpha1.VirtualNode).Status.StorageClasses = classes }
	}
	for _, test := range []struct {
		name     string
		change   func(*corev1.PersistentVolumeClaim)
		class    func(*storagev1.StorageClass)
		local    func(*storagev1.StorageClass)
		milan    func([]client.Object)
		node     string
		event    string
		unselect bool
	}{
		{name: "volumeMode", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, event: "spec.volumeMode Block"},
		{name: "dataSource", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, event: "spec.dataSource "},
		{name: "dataSourceRef", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }, event: "spec.dataSourceRef "},
		{name: "selector", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, event: "spec.selector"},
		{name: "an Immediate class", class: func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil }, event: "volumeBindingMode Immediate"},
		{name: "no default class", local: func(c *storagev1.StorageClass) { c.Annotations = nil }, event: "no default StorageClass"},
		{name: "an unknown class", class: func(c *storagev1.StorageClass) {
			c.Parameters = map[string]string{v1alpha1.ParameterLocalStorageClass: "nvme"}
		}, event: "StorageClass nvme does not exist"},
		{name: "no provisioner", local: func(c *storagev1.StorageClass) { c.Provisioner = noProvisioner }, event: noProvisioner},
		{name: "a Secret by the claim", local: func(c *storagev1.StorageClass) {
			c.Parameters = map[string]string{"csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}"}
		}, event: "node-stage-secret-name"},
		{name: "a namespace that is not offloaded", node: milanNode, milan: func(objects []client.Object) {
			objects[3].(*v1alpha1.NamespaceMap).Status.Namespaces = nil
		}, event: "Namespace shop is not offloaded to milan", unselect: true},
		{name: "a class that is not offered", node: milanNode, change: func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[v1alpha1.AnnotationRemoteStorageClass] = "nvme"
		}, event: `does not offer the storage class "nvme"`, unselect: true},
		{name: "no storage offered", node: milanNode, milan: offers(), event: "offers no storage class", unselect: true},
		{name: "a node that was deleted", node: "former", event: "Normal Provisioning Node former was deleted", unselect: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider := milan()
			if test.milan != nil {
				test.milan(provider)
			}
			claim, class, real := userClaim(), virtual(), local()
			if test.node == "" {
				test.node = "worker"
			}
			selected(test.node)(claim)
			for _, change := range []func(){
				func() {
					if test.change != nil {
						test.change(claim)
					}
				},
				func() {
					if test.class != nil {
						test.class(class)
					}
				},
				func() {
					if test.local != nil {
						test.local(real)
					}
				},
			} {
				change()
			}
			w := newWorld(t, append(provider, class, real, worker(), claim)...)
			p := w.provisioner()
			for range 3 {
				w.provision(p)
			}
			w.expectEvent(test.event)
			kept := get(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{})
			if unselected := kept.Annotations[volume.AnnotationSelectedNode] == ""; unselected != test.unselect {
				t.Errorf("the node was unselected: %t", unselected)
			}
			if w.kept() != nil {
				t.Error("milan has a claim")
			}
		})
	}
}

func TestClaimIsNotProvisionedWhileAVolumeNamesItOrItsDataIsMoved(t *testing.T) {
	named := func(uid string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{
				Namespace: "shop", Name: "data-db-0", UID: types.UID(uid),
			}}}
	}
	moved := func(phase v1alpha1.MovePhase) *v1alpha1.VirtualVolume {
		return &v1alpha1.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"},
			Spec:       v1alpha1.VirtualVolumeSpec{Move: &v1alpha1.RequestedMove{ID: "m1"}},
			Status:     v1alpha1.VirtualVolumeStatus{Move: &v1alpha1.MoveProgress{ID: "m1", Phase: phase}},
		}
	}
	requested := moved(v1alpha1.MoveSucceeded)
	requested.Spec.Move.ID = "m2"
	recorded := func(claim string) *corev1.PersistentVolume {
		locked := named("uid-of-source")
		locked.Spec.ClaimRef.Name = "move-m1-source"
		locked.Annotations = map[string]string{
			volume.LabelMove: fmt.Sprintf(`{"id":"m1","namespace":"shop","claim":%q}`, claim),
		}
		return locked
	}
	for _, test := range []struct {
		name        string
		object      client.Object
		change      func(*corev1.PersistentVolumeClaim)
		provisioned bool
	}{
		{name: "nothing", object: named("of an earlier claim"), provisioned: true},
		{name: "named without UID", object: named("")},
		{name: "named with UID", object: named(claimUID)},
		{name: "a move that runs", object: moved(v1alpha1.MoveSwitching)},
		{name: "a move that is requested", object: requested},
		{name: "a move that only its volumes record", object: recorded("data-db-0")},
		{name: "a move of another claim", object: recorded("logs"), provisioned: true},
		{name: "a move that ended", object: moved(v1alpha1.MoveFailed), provisioned: true},
		{name: "volumeName", object: named("x"), change: func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = "mine" }},
		{name: "no node", object: named("x"), change: func(claim *corev1.PersistentVolumeClaim) { claim.Annotations = nil }},
		{name: "another class", object: named("x"), change: func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = ptr.To("local") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := userClaim(selected("worker"))
			if test.change != nil {
				test.change(claim)
			}
			w := newWorld(t, virtual(), local(), worker(), claim, test.object)
			w.provision(w.provisioner())
			if got := len(w.writes()) > 0; got != test.provisioned {
				t.Errorf("provisioned %t: %v", got, w.writes())
			}
		})
	}
}

// bind creates the volume of the user's claim with the data on the cluster with this id, and binds the claim to it.
func (w *world) bind(clusterID string) {
	w.t.Helper()
	pv := remoteVolume(userClaim(), virtual(), w.kept(),
		&v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: clusterID}}, worker())
	if err := w.Client.Create(w.t.Context(), pv); err != nil {
		w.t.Fatal(err)
	}
	change(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, bound(pv.Name))
}

func TestClaimsOnAProviderWithoutAVolumeAreDeleted(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*world)
		removed bool
		policy  v1alpha1.VolumeDeletionPolicy
	}{
		{name: "node of the claim is selected", change: func(*world) {}},
		{name: "another node was selected", change: func(w *world) {
			change(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, selected("worker"))
		}, removed: true, policy: v1alpha1.VolumeDeletionDelete},
		{name: "the claim was deleted", change: func(w *world) {
			if err := w.Client.Delete(w.t.Context(), userClaim()); err != nil {
				w.t.Fatal(err)
			}
		}, removed: true, policy: v1alpha1.VolumeDeletionRetain},
		{name: "a volume names the ShadowVolumeClaim", change: func(w *world) {
			pv := remoteVolume(userClaim(), virtual(), w.kept(),
				&v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: milanID}}, worker())
			if err := errors.Join(w.Client.Create(w.t.Context(), pv), w.Client.Delete(w.t.Context(), userClaim())); err != nil {
				w.t.Fatal(err)
			}
		}},
		{name: "a volume on another provider has the same namespace and name", change: func(w *world) {
			pv := remoteVolume(userClaim(), virtual(), w.kept(),
				&v1alpha1.VirtualNode{Spec: v1alpha1.VirtualNodeSpec{ClusterID: turinID}}, worker())
			if err := errors.Join(w.Client.Create(w.t.Context(), pv), w.Client.Delete(w.t.Context(), userClaim())); err != nil {
				w.t.Fatal(err)
			}
		}, removed: true, policy: v1alpha1.VolumeDeletionRetain},
		{name: "the claim is bound to its volume", change: func(w *world) { w.bind(milanID) }},
		{name: "the claim is bound to a volume on another provider", change: func(w *world) { w.bind(turinID) },
			removed: true, policy: v1alpha1.VolumeDeletionRetain},
		{name: "the volume of the bound claim was deleted", change: func(w *world) {
			change(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, bound(volume.VolumeName(claimUID)))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, withMilan(virtual(), local(), worker(), userClaim(selected(milanNode)))...)
			w.provision(w.provisioner())
			w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept != nil })
			deleted := w.deletions()
			test.change(w)
			w.provision(w.provisioner())
			if removed := w.kept() == nil; removed != test.removed || *deleted != test.policy {
				t.Errorf("removed %t with policy %q", removed, *deleted)
			}
		})
	}
}

func TestProviderThatDoesNotAnswerIsRetried(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), userClaim(selected(milanNode)))...)
	fakes.React(w.milan, "create", "shadowvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	result, err := w.provisioner().Reconcile(t.Context(), dataRequest)
	if err != nil || result.RequeueAfter != 10*time.Second {
		t.Errorf("got %v, %v", result, err)
	}
	w.expectEvent("Warning ProvisioningFailed The request to milan failed and is retried: connection refused.")
	claim := get(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{})
	if claim.Annotations[volume.AnnotationSelectedNode] != milanNode {
		t.Error("the node is not selected any more")
	}
}
