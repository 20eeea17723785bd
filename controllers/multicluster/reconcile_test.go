// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsfake "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned/fake"
	mcslisters "sigs.k8s.io/mcs-api/pkg/client/listers/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/watches"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

var webKey = cache.NewObjectName("shop", "web")

// world is what the controller of rome finds: its caches and the APIs hold the
// same.
type world struct {
	*Controller
	kube   *kubefake.Clientset
	mcs    *mcsfake.Clientset
	events *record.FakeRecorder
	// slices and services are what is watched of the namespace shop.
	slices, services cache.Indexer
	watched          bool
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{kube: kubefake.NewClientset(), mcs: mcsfake.NewSimpleClientset(), events: record.NewFakeRecorder(10), watched: true}
	federation := fedfake.NewSimpleClientset()
	kubeInformers, federationInformers := kubeinformers.NewSharedInformerFactory(w.kube, 0), externalversions.NewSharedInformerFactory(federation, 0)
	var err error
	w.Controller, err = New(w.kube, w.mcs, kubeInformers, federationInformers, w.events,
		Installation{ClusterName: "rome", Account: "federation-controller-manager", AccountNamespace: "liqo"}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	exports, imports, copies := indexer(), indexer(), indexer()
	w.slices, w.services = indexer(), indexer()
	group := federationInformers.Federation().V1alpha1()
	for _, object := range objects {
		into, tracker := cache.Indexer(nil), w.kube.Tracker()
		switch object := object.(type) {
		case *corev1.Namespace:
			into = kubeInformers.Core().V1().Namespaces().Informer().GetIndexer()
		case *v1alpha1.NamespaceOffloading:
			into, tracker = group.NamespaceOffloadings().Informer().GetIndexer(), federation.Tracker()
		case *v1alpha1.ForeignCluster:
			into, tracker = group.ForeignClusters().Informer().GetIndexer(), federation.Tracker()
		case *v1alpha1.VirtualNode:
			into, tracker = group.VirtualNodes().Informer().GetIndexer(), federation.Tracker()
		case *rbacv1.RoleBinding:
			into = w.bindingInformers.Rbac().V1().RoleBindings().Informer().GetIndexer()
		case *mcsv1alpha1.ServiceExport:
			into, tracker = exports, w.mcs.Tracker()
		case *mcsv1alpha1.ServiceImport:
			into, tracker = imports, w.mcs.Tracker()
			if !isOurs(object) {
				into = indexer()
			}
		case *discoveryv1.EndpointSlice:
			into = w.slices
		case *corev1.Service:
			into = w.services
			if object.Labels[v1alpha1.LabelExported] == "true" {
				if err := copies.Add(object); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := into.Add(object); err != nil {
			t.Fatal(err)
		}
		if err := tracker.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	w.session.Store(&session{
		exports: mcslisters.NewServiceExportLister(exports), imports: mcslisters.NewServiceImportLister(imports), copies: corelisters.NewServiceLister(copies),
		during: t.Context(),
		watch: func(_ context.Context, namespace string) (*watches.NamespaceServices, error) {
			if !w.watched {
				return nil, nil
			}
			return &watches.NamespaceServices{
				Services: corelisters.NewServiceLister(w.services).Services(namespace), Slices: discoverylisters.NewEndpointSliceLister(w.slices).EndpointSlices(namespace),
			}, nil
		},
		forget: func(string) {},
	})
	return w
}

// writes are what was done, in words.
func (w *world) writes() []string {
	var all []string
	for _, actions := range [][]clienttesting.Action{w.mcs.Actions(), w.kube.Actions()} {
		for _, action := range actions {
			if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
				what := verb + " " + action.GetResource().Resource
				if sub := action.GetSubresource(); sub != "" {
					what += "/" + sub
				}
				all = append(all, what)
			}
		}
	}
	return all
}

// stands is how the export stands now, and imported what is imported: the
// clusters, and each slice in a line.
func (w *world) stands(t *testing.T) string {
	t.Helper()
	export, err := w.mcs.MulticlusterV1alpha1().ServiceExports("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(words(export.Status.Conditions), ", ")
}

func (w *world) imported(t *testing.T) []string {
	t.Helper()
	found, err := w.mcs.MulticlusterV1alpha1().ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var clusters []string
	for _, cluster := range found.Status.Clusters {
		clusters = append(clusters, cluster.Cluster)
	}
	all := []string{strings.Join(clusters, " ")}
	list, err := w.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcsv1alpha1.LabelServiceName})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		all = append(all, lines([]*discoveryv1.EndpointSlice{&list.Items[i]})...)
	}
	return all
}

func shop(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels}}
}

func offloaded(clusters ...string) *v1alpha1.NamespaceOffloading {
	offloading := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"}}
	for _, cluster := range clusters {
		offloading.Status.Clusters = append(offloading.Status.Clusters, v1alpha1.OffloadedCluster{
			Name: cluster, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		})
	}
	return offloading
}

func foreign(name string, networking v1alpha1.PeeringPhase) *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.ForeignClusterStatus{Networking: networking}}
}

func virtualNode(cluster string) *v1alpha1.VirtualNode {
	return &v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-peer-" + cluster, Name: cluster}, Spec: v1alpha1.VirtualNodeSpec{NodeName: "liqo-" + cluster}}
}

func export(conditions ...metav1.Condition) *mcsv1alpha1.ServiceExport {
	return &mcsv1alpha1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "export"}, Status: mcsv1alpha1.ServiceExportStatus{Conditions: conditions},
	}
}

// told is an export that was told how it stands.
func told(s standing) *mcsv1alpha1.ServiceExport {
	e := export()
	s.tell(&e.Status, 0)
	return e
}

func bound() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: binding}}
}

// imported is an import of web that says of which clusters it is.
func imported(owner metav1.OwnerReference, present bool, clusters ...string) *mcsv1alpha1.ServiceImport {
	one := importFor(web(), owner)
	one.UID = "import"
	bringStatus(one, clusters, present)
	return one
}

func importedSlices(of ...*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	return slicesFor(made("web"), of, byNode)[0]
}

func TestAServiceIsExportedFromHome(t *testing.T) {
	native := slice("web-a", endpoint("10.1.0.1", "worker"), endpoint("10.2.0.1", "liqo-milan"))
	well := "Valid=True Valid, Ready=True Exported, Conflict=False NoConflicts"
	aliased := web(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })
	skipped := told(exported)
	skipped.Annotations = map[string]string{v1alpha1.AnnotationSkipReflection: ""}
	leaving := offloaded("milan")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	somebodys := imported(exporter, false, "paris")
	somebodys.Labels = nil
	create := []string{"create serviceimports", "patch serviceimports/status"}
	for _, test := range []struct {
		name     string
		objects  []runtime.Object
		wrote    []string
		stands   string
		imported []string
		again    bool
	}{
		{
			"it may write there first", []runtime.Object{shop(nil), offloaded("milan"), export(), web(), native},
			[]string{"create rolebindings"}, "", nil, true,
		},
		{
			"one is imported, with what is in reach", []runtime.Object{shop(nil), offloaded("milan"), export(), web(), native, bound(), virtualNode("milan"), foreign("milan", v1alpha1.PeeringNone)},
			append(create, "patch serviceexports/status", "create endpointslices"), well, []string{"rome", "rome: 10.1.0.1"}, false,
		},
		{
			"where there is a network with both clusters", []runtime.Object{shop(nil), offloaded("milan"), export(), web(), native, bound(), virtualNode("milan"), foreign("milan", v1alpha1.PeeringEstablished)},
			append(create, "patch serviceexports/status", "create endpointslices", "create endpointslices"), well, []string{"milan rome", "milan: 10.2.0.1", "rome: 10.1.0.1"}, false,
		},
		{
			"where it extends to nobody", []runtime.Object{shop(nil), offloaded(), export(), web(), bound()},
			append(create, "patch serviceexports/status"), well, []string{"rome"}, false,
		},
		{
			"what is right is left in peace",
			[]runtime.Object{shop(nil), offloaded(), told(exported), web(), slice("web-a", endpoint("10.1.0.1", "worker")), bound(), imported(exporter, true, "rome"), importedSlices(slice("web-a", endpoint("10.1.0.1", "worker")))},
			nil, well, []string{"rome", "rome: 10.1.0.1"}, false,
		},
		{
			"endpoints that are gone go", []runtime.Object{shop(nil), offloaded(), told(exported), web(), bound(), imported(exporter, true, "rome"), importedSlices(slice("web-a", endpoint("10.1.0.1", "worker")))},
			[]string{"patch serviceimports/status", "delete endpointslices"}, well, []string{"rome"}, false,
		},
		{
			"without a Service there is none", []runtime.Object{shop(nil), offloaded(), told(exported), bound(), imported(exporter, false, "rome")},
			[]string{"delete serviceimports", "patch serviceexports/status"}, "Valid=False NoService, Ready=False Pending, Conflict=False NoConflicts", nil, false,
		},
		{
			"nor of an alias", []runtime.Object{shop(nil), offloaded(), export(), aliased, bound()},
			[]string{"patch serviceexports/status"}, "Valid=False InvalidServiceType, Ready=False Failed", nil, false,
		},
		{
			"it goes with its export, and the right to write", []runtime.Object{shop(nil), offloaded(), web(), bound(), imported(exporter, true, "rome"), importedSlices(slice("web-a", endpoint("10.1.0.1", "worker")))},
			[]string{"delete serviceimports", "delete endpointslices"}, "", nil, false,
		},
		{"what stays home is not touched", []runtime.Object{shop(nil), offloaded(), skipped, web()}, nil, well, nil, false},
		{
			"what stays home from now on goes", []runtime.Object{shop(nil), offloaded(), skipped, web(), bound(), imported(exporter, false, "rome")},
			[]string{"delete serviceimports"}, well, nil, false,
		},
		{
			"it goes with the offloading", []runtime.Object{shop(nil), leaving, told(exported), web(), bound(), imported(exporter, false, "rome")},
			[]string{"patch serviceexports/status", "delete serviceimports"}, "Valid=True Valid, Ready=False NotOffloaded, Conflict=False NoConflicts", nil, false,
		},
		{"exports elsewhere are somebody else's", []runtime.Object{shop(nil), export(), web()}, nil, "", nil, false},
		{"nothing left takes the right to write back", []runtime.Object{shop(nil), offloaded(), web(), bound()}, []string{"delete rolebindings"}, "", nil, false},
		{
			"somebody else's import is in the way", []runtime.Object{shop(nil), offloaded(), export(), web(), bound(), somebodys},
			[]string{"create serviceimports", "patch serviceexports/status"}, "Valid=True Valid, Ready=False Failed, Conflict=False NoConflicts", []string{"paris"}, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) { reconciled(t, test.objects, test.wrote, test.stands, test.imported, test.again) })
	}
}

func reconciled(t *testing.T, objects []runtime.Object, wrote []string, stands string, imported []string, wantAgain bool) {
	t.Helper()
	w := newWorld(t, objects...)
	again, err := w.reconcile(t.Context(), webKey)
	if err != nil || (again > 0) != wantAgain {
		t.Errorf("error %v, again after %v", err, again)
	}
	if diff := cmp.Diff(wrote, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := w.stands(t); got != stands {
		t.Errorf("the export stands at %q, want %q", got, stands)
	}
	got := w.imported(t)
	if diff := cmp.Diff(sorted(imported), sorted(got)); diff != "" {
		t.Errorf("imported (-want +got):\n%s", diff)
	}
}

// sorted is as the slices come in any order, after the clusters.
func sorted(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}

func TestAServiceIsImportedInATwin(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelForeignCluster: "naples"}
	copied := func(change ...func(*corev1.Service)) *corev1.Service {
		return web(append(change, func(s *corev1.Service) { s.Labels[v1alpha1.LabelExported] = "true" })...)
	}
	own := slice("web-a", endpoint("10.1.0.1", "worker"))
	sent := slice("web-b", discoveryv1.Endpoint{Addresses: []string{"10.3.0.1"}})
	sent.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "service"}
	unready := sent.DeepCopy()
	create := []string{"create serviceimports", "patch serviceimports/status"}
	for _, test := range []struct {
		name     string
		objects  []runtime.Object
		wrote    []string
		imported []string
	}{
		{"with what is here", []runtime.Object{shop(labels), copied(), own, foreign("naples", v1alpha1.PeeringNone)}, append(create, "create endpointslices"), []string{"rome", "rome: 10.1.0.1"}},
		{
			"with what was sent, where there is a network", []runtime.Object{shop(labels), copied(), own, sent, foreign("naples", v1alpha1.PeeringEstablished)},
			append(create, "create endpointslices", "create endpointslices"), []string{"naples rome", "rome: 10.1.0.1", "naples: 10.3.0.1"},
		},
		{"not with what is left of a network", []runtime.Object{shop(labels), copied(), own, unready, foreign("naples", v1alpha1.PeeringNone)}, append(create, "create endpointslices"), []string{"rome", "rome: 10.1.0.1"}},
		{"of a consumer that is gone", []runtime.Object{shop(labels), copied(), own}, append(create, "create endpointslices"), []string{"rome", "rome: 10.1.0.1"}},
		{"what is right is left in peace", []runtime.Object{shop(labels), copied(), imported(owner, false, "rome")}, nil, []string{"rome"}},
		{"what is not exported is not", []runtime.Object{shop(labels), web(), own}, nil, nil},
		{"what is not exported any more goes", []runtime.Object{shop(labels), web(), imported(owner, false, "rome")}, []string{"delete serviceimports"}, nil},
		{"an alias is not", []runtime.Object{shop(labels), copied(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })}, nil, nil},
		{"an export in a twin is somebody else's", []runtime.Object{shop(labels), export(), web()}, nil, nil},
		{"a copy that got out of twins is nobody's", []runtime.Object{shop(nil), copied(), own}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) { reconciled(t, test.objects, test.wrote, "", test.imported, false) })
	}
}

func TestTheNameInATwinMayBeTaken(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelRole: v1alpha1.RoleTwin, v1alpha1.LabelForeignCluster: "naples"}
	somebodys := imported(exporter, false, "paris")
	somebodys.Labels = nil
	w := newWorld(t, shop(labels), web(func(s *corev1.Service) { s.Labels[v1alpha1.LabelExported] = "true" }), somebodys)
	for range 2 {
		if again, err := w.reconcile(t.Context(), webKey); err != nil || again == 0 {
			t.Fatalf("error %v, again after %v", err, again)
		}
	}
	if len(w.events.Events) != 1 {
		t.Errorf("it was told %d times", len(w.events.Events))
	}
	if diff := cmp.Diff([]string{"paris"}, w.imported(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTroubleIsToldOrTriedAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer error
		fails  bool
		stands string
	}{
		{"a refusal is told", apierrors.NewForbidden(schema.GroupResource{Resource: "serviceimports"}, "web", context.Canceled), false, "Valid=True Valid, Ready=False Failed, Conflict=False NoConflicts"},
		{"trouble is tried again", apierrors.NewInternalError(context.Canceled), true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shop(nil), offloaded(), export(), web(), bound())
			w.mcs.PrependReactor("create", "serviceimports", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.answer })
			again, err := w.reconcile(t.Context(), webKey)
			if (err != nil) != test.fails || (again > 0) == test.fails {
				t.Errorf("error %v, again after %v", err, again)
			}
			if got := w.stands(t); got != test.stands {
				t.Errorf("the export stands at %q, want %q", got, test.stands)
			}
		})
	}
}

func TestNothingIsDoneBeforeTheNamespaceIsKnown(t *testing.T) {
	w := newWorld(t, shop(nil), offloaded(), export(), web(), bound())
	w.watched = false
	reconcile := func() {
		t.Helper()
		if _, err := w.reconcile(t.Context(), webKey); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	if wrote := w.writes(); len(wrote) > 0 {
		t.Errorf("it wrote %v", wrote)
	}
	w.session.Store(nil)
	w.watched = true
	reconcile()
	if wrote := w.writes(); len(wrote) > 0 {
		t.Errorf("it wrote %v while the API is not served", wrote)
	}
}
