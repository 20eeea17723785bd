// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceoffloading

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// world is the subresource offload with the stores that it uses, in a cluster with the namespace web.
type world struct {
	*OffloadREST
	offloadings *subresourcetest.Parent[*federation.NamespaceOffloading]
	kube        *fake.Clientset
}

func newWorld() *world {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web",
		Labels: map[string]string{"team": "shop"}}})
	plans := plan.Reader{
		Clusters: subresourcetest.List(func() runtime.Object {
			return &federation.ForeignClusterList{Items: []federation.ForeignCluster{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan"},
				Spec:       federation.ForeignClusterSpec{Outgoing: federation.PeeringEnabled},
			}}}
		}),
		VirtualNodes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualNodeList{Items: []federation.VirtualNode{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan",
					Namespace: "liqo-peer-milan"}, Spec: federation.VirtualNodeSpec{NodeName: "liqo-milan",
					Labels: map[string]string{"region": "it"}},
			}}}
		}),
		Volumes: subresourcetest.List(func() runtime.Object {
			return &federation.VirtualVolumeList{Items: []federation.VirtualVolume{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "data"},
				Status:     federation.VirtualVolumeStatus{Location: &federation.VolumeLocation{ClusterName: "milan"}},
			}}}
		}),
		Offers: subresourcetest.List(func() runtime.Object {
			return &federation.ResourceOfferList{Items: []federation.ResourceOffer{{
				ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-peer-milan"},
				Spec:       federation.ResourceOfferSpec{Pods: &federation.PodPolicy{RuntimeClasses: []string{"*"}}},
				Status:     federation.ResourceOfferStatus{Phase: federation.NegotiationAccepted},
			}}}
		}),
		Kube: kube, ClusterName: "rome", ClusterID: "0c9e8d7f-1a2b-4c3d-8e4f-5a6b7c8d9e0f",
	}
	offloadings := &subresourcetest.Parent[*federation.NamespaceOffloading]{
		Strategy: Kind(plans).Strategy(scheme),
		Resource: federation.Resource("namespaceoffloadings"),
		Empty:    func() *federation.NamespaceOffloading { return &federation.NamespaceOffloading{} },
	}
	return &world{OffloadREST: NewOffloadREST(offloadings, kube.CoreV1().Namespaces(), plans), offloadings: offloadings,
		kube: kube}
}

func request(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), "web")
}

func (w *world) post(t *testing.T, change ...func(*federation.Offload)) (*federation.Offload, error) {
	t.Helper()
	offload := &federation.Offload{Spec: federation.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: federation.DefaultName, PodOffloadingStrategy: federation.LocalAndRemote,
		Enforcement: federation.Warn,
		Volumes:     federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadRefuse},
	}}
	for _, c := range change {
		c(offload)
	}
	obj, err := w.Create(request(t), v1alpha1.NamespaceOffloadingName, offload, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*federation.Offload), nil
}

func (w *world) labels(t *testing.T) map[string]string {
	t.Helper()
	namespace, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Labels
}

func TestOffloadIsIdempotent(t *testing.T) {
	w := newWorld()
	first, err := w.post(t)
	if err != nil {
		t.Fatal(err)
	}
	stored, ok := w.offloadings.Stored(v1alpha1.NamespaceOffloadingName)
	if !ok || stored.Namespace != "web" || stored.Finalizers[0] != v1alpha1.Finalizer || stored.UID != first.UID {
		t.Errorf("the offloading is %+v", stored)
	}
	if labels := w.labels(t); labels[v1alpha1.LabelSchedulingEnabled] != "true" || labels["team"] != "shop" {
		t.Errorf("the namespace has the labels %v", labels)
	}
	before := w.offloadings.Writes()
	second, err := w.post(t)
	if err != nil {
		t.Fatal(err)
	}
	if second.ResourceVersion != first.ResourceVersion || w.offloadings.Writes() != before {
		t.Error("the second POST wrote an object")
	}
}

func TestRefusedOffloadStoresNothing(t *testing.T) {
	for name, test := range map[string]struct {
		name    string
		change  func(*federation.Offload)
		code    int32
		message string
	}{
		"another name in the path": {name: "other", code: http.StatusUnprocessableEntity, message: "metadata.name"},
		"another name in the body": {change: func(o *federation.Offload) { o.Name = "other" }, code: http.StatusBadRequest,
			message: `"other"`},
		"an unknown strategy": {change: func(o *federation.Offload) { o.Spec.PodOffloadingStrategy = "Somewhere" },
			code: http.StatusUnprocessableEntity, message: "spec.podOffloadingStrategy"},
		"a broken selector": {change: func(o *federation.Offload) {
			o.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Near"}}}}
		}, code: http.StatusUnprocessableEntity,
			message: "spec.clusterSelector.nodeSelectorTerms[0].matchExpressions[0].operator"},
		"a uid for a new NamespaceOffloading": {change: func(o *federation.Offload) { o.UID = types.UID("uid") },
			code: http.StatusConflict, message: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			offload := &federation.Offload{
				Spec: federation.NamespaceOffloadingSpec{NamespaceMappingStrategy: federation.DefaultName,
					PodOffloadingStrategy: federation.Local, Enforcement: federation.Warn,
					Volumes: federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadRefuse}}}
			if test.change != nil {
				test.change(offload)
			}
			path := test.name
			if path == "" {
				path = v1alpha1.NamespaceOffloadingName
			}
			_, err := w.Create(request(t), path, offload, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
			if w.offloadings.Writes() != 0 || w.labels(t)[v1alpha1.LabelSchedulingEnabled] != "" {
				t.Error("a refused POST is partly stored")
			}
		})
	}
}

func TestOffloadContradictionsAreConflicts(t *testing.T) {
	for field, change := range map[string]func(*federation.Offload){
		"spec.namespaceMappingStrategy": func(o *federation.Offload) { o.Spec.NamespaceMappingStrategy = federation.EnforceSameName },
		"spec.remoteNamespaceName": func(o *federation.Offload) {
			o.Spec.NamespaceMappingStrategy, o.Spec.RemoteNamespaceName = federation.SelectedName, "store"
		},
		"spec.podOffloadingStrategy": func(o *federation.Offload) { o.Spec.PodOffloadingStrategy = federation.Remote },
		"spec.volumes.onUnoffload":   func(o *federation.Offload) { o.Spec.Volumes.OnUnoffload = federation.UnoffloadDelete },
		"spec.enforcement":           func(o *federation.Offload) { o.Spec.Enforcement = federation.Evict },
		"spec.clusterSelector": func(o *federation.Offload) {
			o.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpExists}}}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			w := newWorld()
			if _, err := w.post(t); err != nil {
				t.Fatal(err)
			}
			_, err := w.post(t, change)
			subresourcetest.ExpectStatus(t, err, http.StatusConflict, field)
		})
	}
}

func TestOffloadDryRunWritesNothing(t *testing.T) {
	w := newWorld()
	fakes.React(w.kube, "patch", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if len(action.(clienttesting.PatchActionImpl).PatchOptions.DryRun) == 0 {
			t.Error("the namespace is written")
		}
		return true, &corev1.Namespace{}, nil
	})
	gpu := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "gpu"},
		Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}},
	}
	if err := w.kube.Tracker().Add(gpu); err != nil {
		t.Fatal(err)
	}
	offload := &federation.Offload{
		Spec: federation.NamespaceOffloadingSpec{NamespaceMappingStrategy: federation.DefaultName,
			PodOffloadingStrategy: federation.LocalAndRemote, Enforcement: federation.Warn,
			Volumes: federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadRefuse}}}
	obj, err := w.Create(request(t), v1alpha1.NamespaceOffloadingName, offload, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if w.offloadings.Writes() != 0 {
		t.Error("a dry run wrote an object")
	}
	plan := obj.(*federation.Offload).Status.Plan
	if plan == nil || plan.Action != federation.PlanCreate || len(plan.Clusters) != 1 || !plan.Clusters[0].Selected {
		t.Errorf("the plan is %+v", plan)
	}
	if plan != nil && (len(plan.Conflicts) != 1 || !strings.Contains(plan.Conflicts[0], "spec.tolerations[0].key")) {
		t.Errorf("the conflicts are %q, want one about the pod that milan refuses", plan.Conflicts)
	}
}

func TestOffloadIsAdmittedBeforeAnyWrite(t *testing.T) {
	w := newWorld()
	forbidden := apierrors.NewForbidden(offloadResource, "offloading", errors.New("not this namespace"))
	_, err := w.Create(request(t), v1alpha1.NamespaceOffloadingName,
		&federation.Offload{Spec: federation.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: federation.DefaultName, PodOffloadingStrategy: federation.Local,
			Enforcement: federation.Warn,
			Volumes:     federation.NamespaceVolumes{OnUnoffload: federation.UnoffloadRefuse},
		}}, func(context.Context, runtime.Object) error { return forbidden }, &metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "not this namespace")
	if w.offloadings.Writes() != 0 {
		t.Error("a refused POST wrote an object")
	}
}

func TestOffloadChangesByUpdateOnly(t *testing.T) {
	update := func(w *world, change func(*federation.Offload)) (*federation.Offload, error) {
		info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			offload := old.DeepCopyObject().(*federation.Offload)
			change(offload)
			return offload, nil
		})
		obj, _, err := w.Update(request(t), v1alpha1.NamespaceOffloadingName, info, rest.ValidateAllObjectFunc,
			rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*federation.Offload), nil
	}
	w := newWorld()
	_, err := update(w, func(*federation.Offload) {})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "offloading")
	if _, err := w.post(t); err != nil {
		t.Fatal(err)
	}
	changed, err := update(w, func(o *federation.Offload) { o.Spec.PodOffloadingStrategy = federation.Remote })
	if err != nil {
		t.Fatal(err)
	}
	if changed.Spec.PodOffloadingStrategy != federation.Remote || changed.Generation != 2 {
		t.Errorf("the offload is %+v", changed)
	}
	for name, test := range map[string]struct {
		change  func(*federation.Offload)
		code    int32
		message string
	}{
		"the mapping strategy": {change: func(o *federation.Offload) { o.Spec.NamespaceMappingStrategy = federation.EnforceSameName }, code: http.StatusUnprocessableEntity, message: "spec.namespaceMappingStrategy"},
		"another uid": {change: func(o *federation.Offload) { o.UID = "other" }, code: http.StatusConflict,
			message: "uid"},
		"an old resourceVersion": {change: func(o *federation.Offload) { o.ResourceVersion = "0" }, code: http.StatusConflict,
			message: "resourceVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := update(w, test.change)
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
		})
	}
	_, _, err = w.Update(request(t), v1alpha1.NamespaceOffloadingName,
		rest.DefaultUpdatedObjectInfo(&federation.Offload{}), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusMethodNotAllowed, "server-side apply")
}

func TestUnoffloadDeletesTheParent(t *testing.T) {
	w := newWorld()
	_, _, err := w.Delete(request(t), v1alpha1.NamespaceOffloadingName, rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "offloading")
	if _, err := w.post(t); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.Delete(request(t), v1alpha1.NamespaceOffloadingName, rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "uid")
	if _, _, err := w.Delete(request(t), v1alpha1.NamespaceOffloadingName, rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stored, ok := w.offloadings.Stored(v1alpha1.NamespaceOffloadingName)
	if !ok || stored.DeletionTimestamp == nil {
		t.Errorf("the offloading is %+v; it has to wait for its finalizer", stored)
	}
	_, err = w.post(t)
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "being deleted")
}
