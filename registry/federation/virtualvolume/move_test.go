// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/plan"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/fakes"
)

// testCluster is the subresource move in a cluster with the bound claim data-db-0 in namespace shop, which is offloaded
// to milan.
type testCluster struct {
	*MoveREST
	volumes *subresourcetest.Parent[*federation.VirtualVolume]
	kube    *fake.Clientset
}

func newCluster(t *testing.T) *testCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: "shop", UID: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1", StorageClassName: ptr.To("liqo"),
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size},
	}
	kube := fake.NewClientset(claim,
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0", UID: "c"}}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: v1alpha1.StorageProvisioner},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: "example.com/ssd"})
	volumes := &subresourcetest.Parent[*federation.VirtualVolume]{
		Strategy: newStrategy(scheme),
		Resource: federation.Resource("virtualvolumes"),
		Empty:    func() *federation.VirtualVolume { return &federation.VirtualVolume{} },
	}
	volumes.Put(&federation.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: "shop", UID: "v", ResourceVersion: "1"},
		Status: federation.VirtualVolumeStatus{Phase: federation.VirtualVolumeBound,
			Location: &federation.VolumeLocation{StorageClassName: "local", VolumeName: "pv-1"}},
	})
	const milan = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	plans := plan.Reader{
		Kube: kube,
		Clusters: subresourcetest.List(func() runtime.Object {
			return &federation.ForeignClusterList{Items: []federation.ForeignCluster{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan"},
				Spec:       federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled, ClusterID: milan},
				Status:     federation.ForeignClusterStatus{Networking: federation.PeeringEstablished},
			}}}
		}),
		VirtualNodes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualNodeList{Items: []federation.VirtualNode{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
				Spec:       federation.VirtualNodeSpec{NodeName: "liqo-milan", ClusterID: milan},
				Status:     federation.VirtualNodeStatus{StorageClasses: []string{"fast"}},
			}}}
		}),
		Volumes: subresourcetest.List(func() runtime.Object { return &federation.VirtualVolumeList{} }),
		Offloadings: subresourcetest.List(func() runtime.Object {
			return &federation.NamespaceOffloadingList{Items: []federation.NamespaceOffloading{{
				ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop"},
				Spec:       federation.NamespaceOffloadingSpec{PodOffloadingStrategy: federation.LocalAndRemote},
				Status: federation.NamespaceOffloadingStatus{Clusters: []federation.OffloadedCluster{{
					Name: "milan", Conditions: []metav1.Condition{
						{Type: federation.ConditionOffloadingRequired, Status: metav1.ConditionTrue},
						{Type: federation.ConditionReady, Status: metav1.ConditionTrue},
					}}}},
			}}}
		}),
	}
	return &testCluster{MoveREST: NewMoveREST(volumes, plans), volumes: volumes, kube: kube}
}

// offers limits a resource that milan offers. milan stores another claim of 3Gi in class fast.
func (c *testCluster) offers(name corev1.ResourceName, limit string) {
	nodes, _ := c.plans.VirtualNodes.List(context.Background(), nil)
	nodes.(*federation.VirtualNodeList).Items[0].Status.Storage = corev1.ResourceList{name: resource.MustParse(limit)}
	c.plans.VirtualNodes = subresourcetest.List(func() runtime.Object { return nodes })
	c.plans.Volumes = subresourcetest.List(func() runtime.Object {
		return &federation.VirtualVolumeList{Items: []federation.VirtualVolume{{
			ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "shop"},
			Status: federation.VirtualVolumeStatus{Capacity: ptr.To(resource.MustParse("3Gi")),
				Location: &federation.VolumeLocation{ClusterName: "milan", StorageClassName: "fast"}},
		}}}
	})
}

func inShop(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), "shop")
}

func toMilan(change ...func(*federation.Move)) *federation.Move {
	move := &federation.Move{Spec: federation.MoveSpec{
		Target: federation.MoveTarget{ClusterName: "milan"}, Strategy: federation.MoveOnline,
		Verify:                 federation.VerifyChanged,
		EvictionTimeoutSeconds: ptr.To[int32](300),
	}}
	for _, c := range change {
		c(move)
	}
	return move
}

func (c *testCluster) post(t *testing.T, move *federation.Move, dryRun ...string) (*federation.Move, error) {
	t.Helper()
	obj, err := c.Create(inShop(t), "data-db-0", move, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Move), nil
}

func (c *testCluster) cancel(t *testing.T, options *metav1.DeleteOptions) (*federation.Move, error) {
	t.Helper()
	obj, _, err := c.Delete(inShop(t), "data-db-0", rest.ValidateAllObjectFunc, options)
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Move), nil
}

func (c *testCluster) stored(t *testing.T) *federation.VirtualVolume {
	t.Helper()
	volume, ok := c.volumes.Stored("data-db-0")
	if !ok {
		t.Fatal("the VirtualVolume does not exist")
	}
	return volume.DeepCopy()
}

// reach sets the phase of the requested move, or of an earlier move if none is requested.
func (c *testCluster) reach(t *testing.T, phase federation.MovePhase) {
	t.Helper()
	volume := c.stored(t)
	id := "earlier"
	if volume.Spec.Move != nil {
		id = volume.Spec.Move.ID
	}
	volume.Status.Move = &federation.MoveProgress{ID: id, Phase: phase}
	c.volumes.Put(volume)
}

func TestRepeatedRequestKeepsTheMove(t *testing.T) {
	c := newCluster(t)
	first, err := c.post(t, toMilan())
	if err != nil {
		t.Fatal(err)
	}
	id := c.stored(t).Spec.Move.ID
	if id == "" || first.Spec.Target.ClusterName != "milan" || first.UID != "v" || first.Status.Plan != nil {
		t.Errorf("got %+v with id %q", first, id)
	}
	same := func(when string) {
		t.Helper()
		before := c.volumes.Writes()
		again, err := c.post(t, toMilan())
		if err != nil || c.volumes.Writes() != before || c.stored(t).Spec.Move.ID != id {
			t.Errorf("%s: a repeated request returns %+v, %v", when, again, err)
		}
	}
	same("before it began")
	c.reach(t, federation.MoveCopying)
	same("while it runs")
	_, err = c.post(t, toMilan(func(m *federation.Move) {
		m.Spec.Strategy, m.Spec.Bandwidth = federation.MoveOffline,
			ptr.To(resource.MustParse("1Mi"))
	}))
	subresourcetest.ExpectStatus(t, err, http.StatusConflict,
		"spec.strategy: is Online, not Offline; spec.bandwidth: is unlimited, not 1Mi")
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "cancel it by DELETE")
	c.reach(t, federation.MoveSucceeded)
	same("after it succeeded")
	for _, phase := range []federation.MovePhase{federation.MoveFailed, federation.MoveCancelled} {
		c.reach(t, phase)
		before := c.stored(t).Spec.Move.ID
		if _, err := c.post(t, toMilan()); err != nil || c.stored(t).Spec.Move.ID == before {
			t.Errorf("after a move that is %s no move is requested: %v", phase, err)
		}
	}
	if _, err := c.Get(inShop(t), "data-db-0", &metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestProgressOfAnEarlierMoveIsOmitted(t *testing.T) {
	c := newCluster(t)
	c.reach(t, federation.MoveFailed)
	if got, err := c.post(t, toMilan()); err != nil || got.Status.Progress != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	c.reach(t, federation.MovePreparing)
	got, err := c.Get(inShop(t), "data-db-0", &metav1.GetOptions{})
	if err != nil || got.(*federation.Move).Status.Progress.Phase != federation.MovePreparing {
		t.Errorf("GET returns %+v, %v", got, err)
	}
}

func TestDryRunReturnsThePlanAndWritesNothing(t *testing.T) {
	c := newCluster(t)
	before := c.volumes.Writes()
	got, err := c.post(t, toMilan(), metav1.DryRunAll)
	if err != nil || got.Status.Plan == nil {
		t.Fatalf("the plan is %+v, %v", got, err)
	}
	if got.Status.Plan.Action != federation.PlanChange || got.Status.Plan.Target.StorageClassName != "fast" {
		t.Errorf("the plan is %+v", got.Status.Plan)
	}
	if c.volumes.Writes() != before || c.stored(t).Spec.Move != nil {
		t.Error("a dry run writes")
	}
	if _, err := c.post(t, toMilan()); err != nil {
		t.Fatal(err)
	}
	got, err = c.post(t, toMilan(), metav1.DryRunAll)
	if err != nil || got.Status.Plan == nil || got.Status.Plan.Action != federation.PlanNone {
		t.Errorf("the plan for the same request is %+v, %v", got, err)
	}
}

func TestRefusedMovesWriteNothing(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name    string
		prepare func(*testCluster)
		path    string
		move    *federation.Move
		code    int32
		message string
	}{
		{"no virtual volume", nil, "other", toMilan(), http.StatusNotFound, "only claims of the virtual storage class"},
		{"another name", nil, "", toMilan(func(m *federation.Move) { m.Name = "other" }), http.StatusBadRequest,
			"the path has"},
		{"another uid", nil, "", toMilan(func(m *federation.Move) { m.UID = "x" }), http.StatusConflict, "uid"},
		{"an old version", nil, "", toMilan(func(m *federation.Move) { m.ResourceVersion = "x" }), http.StatusConflict,
			"resourceVersion"},
		{"a bad limit", nil, "", toMilan(func(m *federation.Move) { m.Spec.Bandwidth = ptr.To(resource.MustParse("1")) }),
			http.StatusUnprocessableEntity, "spec.bandwidth"},
		{"an unknown cluster", nil, "", toMilan(func(m *federation.Move) { m.Spec.Target.ClusterName = "rome" }),
			http.StatusUnprocessableEntity, "spec.target.clusterName"},
		{"a claim that is gone", func(c *testCluster) {
			_ = c.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "shop", "data-db-0")
		}, "", toMilan(), http.StatusUnprocessableEntity, "no PersistentVolumeClaim"},
		{"a claim more than the provider offers", func(c *testCluster) {
			c.offers(corev1.ResourcePersistentVolumeClaims, "1")
		}, "", toMilan(), http.StatusUnprocessableEntity, "offers 1 PersistentVolumeClaims, and 2 would be used"},
		{"more storage than the provider offers", func(c *testCluster) {
			c.offers(corev1.ResourceRequestsStorage, "3Gi")
		}, "", toMilan(), http.StatusUnprocessableEntity, "offers 3Gi of storage, and 4Gi would be used"},
		{"more storage of the class than the provider offers", func(c *testCluster) {
			c.offers(v1alpha1.ClassStorage("fast"), "3Gi")
		}, "", toMilan(), http.StatusUnprocessableEntity, "offers 3Gi of class fast, and 4Gi would be used"},
		{"objects that cannot be read", func(c *testCluster) {
			fakes.React(c.kube, "list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the API server is busy")
			})
		}, "", toMilan(), http.StatusInternalServerError, "reading the ResourceQuotas"},
		{"a virtual volume that is being deleted", func(c *testCluster) {
			volume, _ := c.volumes.Stored("data-db-0")
			volume = volume.DeepCopy()
			volume.DeletionTimestamp, volume.Finalizers = &now, []string{"x/y"}
			c.volumes.Put(volume)
		}, "", toMilan(), http.StatusTooManyRequests, "being deleted"},
		{"a move that is being rolled back", func(c *testCluster) {
			volume, _ := c.volumes.Stored("data-db-0")
			volume = volume.DeepCopy()
			volume.Status.Move = &federation.MoveProgress{ID: "earlier", Phase: federation.MoveRollingBack}
			c.volumes.Put(volume)
		}, "", toMilan(), http.StatusTooManyRequests, "earlier is being rolled back"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			if test.prepare != nil {
				test.prepare(c)
			}
			path := test.path
			if path == "" {
				path = "data-db-0"
			}
			before := c.volumes.Writes()
			_, err := c.Create(inShop(t), path, test.move, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
			if c.volumes.Writes() != before {
				t.Error("a refused request writes")
			}
		})
	}
}

func TestMoveCanBeCancelledUntilItSwitches(t *testing.T) {
	for _, test := range []struct {
		phase   federation.MovePhase
		code    int32
		message string
	}{
		{phase: ""}, {phase: federation.MovePreparing}, {phase: federation.MoveCopying}, {phase: federation.MoveQuiescing},
		{phase: federation.MoveLocking}, {phase: federation.MoveFinalCopy}, {phase: federation.MoveRollingBack},
		{federation.MoveSwitching, http.StatusConflict, "wait until it has succeeded"},
		{federation.MoveReleasing, http.StatusConflict, "is Releasing"},
		{federation.MoveCleaning, http.StatusConflict, "move the data back"},
		{federation.MoveSucceeded, http.StatusConflict, "move it back"},
		{federation.MoveFailed, http.StatusNotFound, "no move is running"},
		{federation.MoveCancelled, http.StatusNotFound, "no move is running"},
	} {
		t.Run("at "+string(test.phase), func(t *testing.T) {
			c := newCluster(t)
			if _, err := c.post(t, toMilan()); err != nil {
				t.Fatal(err)
			}
			if test.phase != "" {
				c.reach(t, test.phase)
			}
			_, err := c.cancel(t, &metav1.DeleteOptions{})
			if test.code != 0 {
				subresourcetest.ExpectStatus(t, err, test.code, test.message)
				return
			}
			if err != nil || c.stored(t).Spec.Move != nil {
				t.Errorf("the volume is %+v, %v", c.stored(t).Spec, err)
			}
		})
	}
}

func TestCancellationsHavePreconditionsAndAreIdempotent(t *testing.T) {
	c := newCluster(t)
	_, err := c.cancel(t, &metav1.DeleteOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "no move is running")
	if _, err := c.post(t, toMilan()); err != nil {
		t.Fatal(err)
	}
	c.reach(t, federation.MoveCopying)
	id := c.stored(t).Spec.Move.ID
	_, err = c.cancel(t, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("x"))}})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "uid")
	if _, err := c.cancel(t,
		&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || c.stored(t).Spec.Move == nil {
		t.Errorf("a dry run cancels the move: %v", err)
	}
	got, err := c.cancel(t, &metav1.DeleteOptions{})
	if err != nil || got.Status.Progress == nil || got.Status.Progress.ID != id {
		t.Errorf("got %+v, %v", got, err)
	}
	before := c.volumes.Writes()
	if _, err := c.cancel(t, &metav1.DeleteOptions{}); err != nil || c.volumes.Writes() != before {
		t.Errorf("cancelling again: %v", err)
	}
}

func TestCancellingAnAppliedMoveIsAConflict(t *testing.T) {
	c := newCluster(t)
	if _, err := c.post(t, toMilan()); err != nil {
		t.Fatal(err)
	}
	volume := c.stored(t)
	volume.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.SchemeGroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:move":{"f:target":{"f:clusterName":{}}}}}`),
	}}
	c.volumes.Put(volume)
	_, err := c.cancel(t, &metav1.DeleteOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "argocd")
}

func TestConflictingRequestIsRetried(t *testing.T) {
	c := newCluster(t)
	raced := false
	c.volumes.BeforeUpdate = func() error {
		if raced {
			return nil
		}
		raced = true
		return apierrors.NewConflict(moveResource, "data-db-0", errors.New("changed meanwhile"))
	}
	if _, err := c.post(t, toMilan()); err != nil || c.stored(t).Spec.Move == nil {
		t.Errorf("the move is not requested: %v", err)
	}
}

func TestMoveIsPrintedAsATable(t *testing.T) {
	c := newCluster(t)
	move, err := c.post(t, toMilan())
	if err != nil {
		t.Fatal(err)
	}
	printed, err := c.ConvertToTable(t.Context(), move, nil)
	if err != nil {
		t.Fatal(err)
	}
	var cells []string
	for _, cell := range printed.Rows[0].Cells[:5] {
		cells = append(cells, cell.(string))
	}
	if got := strings.Join(cells, " "); got != "data-db-0 milan Online Changed Requested" {
		t.Errorf("got %q", got)
	}
}
