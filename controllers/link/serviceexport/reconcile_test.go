// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/kit/watches"
)

var webRequest = kit.Request("shop", "web")

// world is the controller of rome with its cluster.
type world struct {
	*kittest.Cluster
	reconciler *Reconciler
	// incomplete is true if the Services of the namespace shop are not cached yet.
	incomplete bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{Cluster: kittest.New(t, objects...)}
	w.reconciler = &Reconciler{
		Client: w.Controller, Live: w.Controller, Events: w.Events, ClusterName: "rome", bindings: w.Controller,
		Account: types.NamespacedName{Namespace: "liqo", Name: "federation-controller-manager"},
	}
	w.reconciler.session.Store(&session{cached: w.Cache(isCached), services: w, during: t.Context()})
	return w
}

// isCached reports whether the cache of a session has an object: it selects ServiceImports and Services by label.
func isCached(object client.Object) bool {
	switch object.(type) {
	case *mcsv1alpha1.ServiceImport:
		return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
	case *corev1.Service:
		return object.GetLabels()[v1alpha1.LabelExported] == "true"
	}
	return true
}

// Of implements services.
func (w *world) Of(ctx context.Context, namespace string) (*watches.NamespaceServices, error) {
	if w.incomplete {
		return nil, nil
	}
	services, slices := kittest.Indexer(), kittest.Indexer()
	var allServices corev1.ServiceList
	var allSlices discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&allServices, &allSlices} {
		if err := w.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for i := range allServices.Items {
		if err := services.Add(&allServices.Items[i]); err != nil {
			return nil, err
		}
	}
	for i := range allSlices.Items {
		if err := slices.Add(&allSlices.Items[i]); err != nil {
			return nil, err
		}
	}
	return &watches.NamespaceServices{
		Services: corelisters.NewServiceLister(services).Services(namespace),
		Slices:   discoverylisters.NewEndpointSliceLister(slices).EndpointSlices(namespace),
	}, nil
}

// Forget implements services.
func (w *world) Forget(string) {}

func (w *world) reconcile(t *testing.T) (again bool, err error) {
	t.Helper()
	result, err := w.reconciler.Reconcile(t.Context(), webRequest)
	return result.RequeueAfter > 0, err
}

// writes returns the writes of the controller without the names of the objects.
func (w *world) writes() []string {
	var all []string
	for _, write := range w.Writes {
		all = append(all, write.Verb+" "+write.Kind)
	}
	return all
}

// standing returns the conditions of the export.
func (w *world) standing(t *testing.T) string {
	t.Helper()
	export := export()
	if !w.Has(export) {
		return ""
	}
	return strings.Join(words(export.Status.Conditions), ", ")
}

// imported returns the clusters of the import, and each of its slices as a line.
func (w *world) imported(t *testing.T) []string {
	t.Helper()
	found := made("web")
	if !w.Has(found) {
		return nil
	}
	var clusters []string
	for _, cluster := range found.Status.Clusters {
		clusters = append(clusters, cluster.Cluster)
	}
	all := []string{strings.Join(clusters, " ")}
	list := kittest.List(w.Cluster, &discoveryv1.EndpointSliceList{}, client.InNamespace("shop"),
		client.HasLabels{mcsv1alpha1.LabelServiceName})
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
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1alpha1.ForeignClusterStatus{Networking: networking},
	}
}

func export(conditions ...metav1.Condition) *mcsv1alpha1.ServiceExport {
	return &mcsv1alpha1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      "web",
			UID:       "export",
		}, Status: mcsv1alpha1.ServiceExportStatus{Conditions: conditions},
	}
}

// reported returns an export with its standing.
func reported(s standing) *mcsv1alpha1.ServiceExport {
	e := export()
	s.report(&e.Status, 0)
	return e
}

func bound() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: bindingName}}
}

// imported returns an import of web with its clusters.
func imported(owner metav1.OwnerReference, present bool, clusters ...string) *mcsv1alpha1.ServiceImport {
	one := importFor(web(), owner)
	one.UID = "import"
	updateStatus(one, clusters, present)
	return one
}

// importedSlice returns the EndpointSlice of the import for one of the Service.
func importedSlice(of *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	return slicesFor(made("web"), []*discoveryv1.EndpointSlice{of}, byNode{})[0]
}

func TestServiceOfAnOffloadedNamespaceIsExported(t *testing.T) {
	native := slice("web-a", endpoint("10.1.0.1", "worker"), endpoint("10.2.0.1", "liqo-milan"))
	local := slice("web-a", endpoint("10.1.0.1", "worker"))
	const valid = "Valid=True Valid, Ready=True Exported, Conflict=False NoConflicts"
	aliased := web(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })
	skipped := reported(exported)
	skipped.Annotations = map[string]string{v1alpha1.AnnotationSkipReflection: ""}
	leaving := offloaded("milan")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/held"}
	other := imported(exporter, false, "paris")
	other.Labels = nil
	const (
		create, createSlice        = "create ServiceImport", "create EndpointSlice"
		remove, removeSlice        = "delete ServiceImport", "delete EndpointSlice"
		reportImport, reportExport = "patch status ServiceImport", "patch status ServiceExport"
		unbind                     = "delete RoleBinding"
	)
	for _, test := range []struct {
		name     string
		objects  []client.Object
		wrote    []string
		standing string
		imported []string
		again    bool
	}{
		{
			"the right to write is granted first", []client.Object{shop(nil), offloaded("milan"), export(), web(), native},
			[]string{"create RoleBinding"}, "", nil, true,
		},
		{
			"with the endpoints that can be reached",
			[]client.Object{
				shop(nil), offloaded("milan"), export(), web(), native, bound(), kittest.VirtualNode("milan", ""),
				foreign("milan", v1alpha1.PeeringNone),
			},
			[]string{create, createSlice, reportImport, reportExport}, valid, []string{"rome", "rome: 10.1.0.1"}, false,
		},
		{
			"with those of both clusters through a network",
			[]client.Object{
				shop(nil), offloaded("milan"), export(), web(), native, bound(), kittest.VirtualNode("milan", ""),
				foreign("milan", v1alpha1.PeeringEstablished),
			},
			[]string{create, createSlice, createSlice, reportImport, reportExport}, valid,
			[]string{"milan rome", "milan: 10.2.0.1", "rome: 10.1.0.1"}, false,
		},
		{
			"offloaded to no cluster", []client.Object{shop(nil), offloaded(), export(), web(), bound()},
			[]string{create, reportImport, reportExport}, valid, []string{"rome"}, false,
		},
		{
			"an equal import is not written",
			[]client.Object{
				shop(nil), offloaded(), reported(exported), web(), local, bound(), imported(exporter, true, "rome"),
				importedSlice(local),
			},
			nil, valid, []string{"rome", "rome: 10.1.0.1"}, false,
		},
		{
			"deleted endpoints are removed",
			[]client.Object{
				shop(nil), offloaded(), reported(exported), web(), bound(), imported(exporter, true, "rome"), importedSlice(local),
			},
			[]string{removeSlice, reportImport}, valid, []string{"rome"}, false,
		},
		{
			"without a Service there is no import",
			[]client.Object{shop(nil), offloaded(), reported(exported), bound(), imported(exporter, false, "rome")},
			[]string{remove, reportExport}, "Valid=False NoService, Ready=False Pending, Conflict=False NoConflicts", nil, false,
		},
		{
			"of an alias there is none", []client.Object{shop(nil), offloaded(), export(), aliased, bound()},
			[]string{reportExport}, "Valid=False InvalidServiceType, Ready=False Failed", nil, false,
		},
		{
			"it is deleted with its export, and the right to write",
			[]client.Object{shop(nil), offloaded(), web(), bound(), imported(exporter, true, "rome"), importedSlice(local)},
			[]string{removeSlice, remove, unbind}, "", nil, false,
		},
		{"an excluded export is not written", []client.Object{shop(nil), offloaded(), skipped, web()}, nil, valid, nil,
			false},
		{
			"the import of an excluded export is deleted",
			[]client.Object{shop(nil), offloaded(), skipped, web(), bound(), imported(exporter, false, "rome")},
			[]string{remove, unbind}, valid, nil, false,
		},
		{
			"it is deleted with the offloading",
			[]client.Object{shop(nil), leaving, reported(exported), web(), bound(), imported(exporter, false, "rome")},
			[]string{reportExport, remove, unbind}, "Valid=True Valid, Ready=False NotOffloaded, Conflict=False NoConflicts",
			nil, false,
		},
		{"an export of another namespace is not reported on", []client.Object{shop(nil), export(), web()}, nil, "", nil,
			false},
		{
			"without exports there is no right to write", []client.Object{shop(nil), offloaded(), web(), bound()},
			[]string{unbind}, "", nil, false,
		},
		{
			"the import of another controller is a conflict",
			[]client.Object{shop(nil), offloaded(), export(), web(), bound(), other},
			[]string{create, reportExport}, "Valid=True Valid, Ready=False Failed, Conflict=False NoConflicts",
			[]string{"paris"}, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectPass(t, test.objects, test.wrote, test.standing, test.imported, test.again)
		})
	}
}

func expectPass(
	t *testing.T,
	objects []client.Object,
	wrote []string,
	standing string,
	imported []string,
	wantAgain bool,
) {
	t.Helper()
	w := newWorld(t, objects...)
	again, err := w.reconcile(t)
	if err != nil || again != wantAgain {
		t.Errorf("error %v, again: %t", err, again)
	}
	if diff := cmp.Diff(wrote, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := w.standing(t); got != standing {
		t.Errorf("the standing of the export is %q, want %q", got, standing)
	}
	if diff := cmp.Diff(setOf(imported), setOf(w.imported(t))); diff != "" {
		t.Errorf("imported (-want +got):\n%s", diff)
	}
}

// setOf returns lines in no order: slices are listed by their names, which are hashes.
func setOf(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		set[line] = true
	}
	return set
}

// ofNaples are the labels of a remote namespace of the consumer naples.
var ofNaples = map[string]string{v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace,
	v1alpha1.LabelForeignCluster: "naples"}

func TestServiceOfARemoteNamespaceIsImported(t *testing.T) {
	reflected := func(change ...func(*corev1.Service)) *corev1.Service {
		return web(append(change, func(s *corev1.Service) { s.Labels[v1alpha1.LabelExported] = "true" })...)
	}
	own := slice("web-a", endpoint("10.1.0.1", "worker"))
	sent := slice("web-b", discoveryv1.Endpoint{Addresses: []string{"10.3.0.1"}})
	sent.Labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "service"}
	const create, createSlice, reportImport = "create ServiceImport", "create EndpointSlice", "patch status ServiceImport"
	for _, test := range []struct {
		name     string
		objects  []client.Object
		wrote    []string
		imported []string
	}{
		{
			"with its own endpoints", []client.Object{shop(ofNaples), reflected(), own, foreign("naples", v1alpha1.PeeringNone)},
			[]string{create, createSlice, reportImport}, []string{"rome", "rome: 10.1.0.1"},
		},
		{
			"with reflected ones through a network",
			[]client.Object{shop(ofNaples), reflected(), own, sent, foreign("naples", v1alpha1.PeeringEstablished)},
			[]string{create, createSlice, createSlice, reportImport},
			[]string{"naples rome", "rome: 10.1.0.1", "naples: 10.3.0.1"},
		},
		{
			"without reflected ones of a former network",
			[]client.Object{shop(ofNaples), reflected(), own, sent, foreign("naples", v1alpha1.PeeringNone)},
			[]string{create, createSlice, reportImport}, []string{"rome", "rome: 10.1.0.1"},
		},
		{
			"of a consumer without a ForeignCluster", []client.Object{shop(ofNaples), reflected(), own},
			[]string{create, createSlice, reportImport}, []string{"rome", "rome: 10.1.0.1"},
		},
		{
			"an equal import is not written", []client.Object{shop(ofNaples), reflected(), imported(owner, false, "rome")},
			nil, []string{"rome"},
		},
		{"a Service that is not exported has none", []client.Object{shop(ofNaples), web(), own}, nil, nil},
		{
			"one that is no longer exported has none", []client.Object{shop(ofNaples), web(), imported(owner, false, "rome")},
			[]string{"delete ServiceImport"}, nil,
		},
		{
			"an alias has none",
			[]client.Object{shop(ofNaples), reflected(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
			nil, nil,
		},
		{"an export in a remote namespace has none", []client.Object{shop(ofNaples), export(), web()}, nil, nil},
		{"a label in another namespace has none", []client.Object{shop(nil), reflected(), own}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) { expectPass(t, test.objects, test.wrote, "", test.imported, false) })
	}
}

func TestConflictInARemoteNamespaceIsRecordedOnce(t *testing.T) {
	other := imported(exporter, false, "paris")
	other.Labels = nil
	w := newWorld(t, shop(ofNaples), web(func(s *corev1.Service) { s.Labels[v1alpha1.LabelExported] = "true" }), other)
	for range 2 {
		if again, err := w.reconcile(t); err != nil || !again {
			t.Fatalf("error %v, again: %t", err, again)
		}
	}
	if events := w.Recorded(); len(events) != 1 {
		t.Errorf("events %q, want one", events)
	}
	if diff := cmp.Diff([]string{"paris"}, w.imported(t)); diff != "" {
		t.Errorf("imported (-want +got):\n%s", diff)
	}
}

func TestFailureIsReportedOrRetried(t *testing.T) {
	resource := schema.GroupResource{Resource: "serviceimports"}
	for _, test := range []struct {
		name     string
		answer   error
		fails    bool
		standing string
	}{
		{
			"a refusal is reported", apierrors.NewForbidden(resource, "web", context.Canceled), false,
			"Valid=True Valid, Ready=False Failed, Conflict=False NoConflicts",
		},
		{"another failure is retried", apierrors.NewInternalError(context.Canceled), true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, shop(nil), offloaded(), export(), web(), bound())
			w.Fault = func(write kittest.Write, done bool) error {
				if write.Verb == "create" && write.Kind == "ServiceImport" && !done {
					return test.answer
				}
				return nil
			}
			again, err := w.reconcile(t)
			if (err != nil) != test.fails || again == test.fails {
				t.Errorf("error %v, again: %t", err, again)
			}
			if got := w.standing(t); got != test.standing {
				t.Errorf("the standing of the export is %q, want %q", got, test.standing)
			}
		})
	}
}

func TestNothingIsWrittenBeforeTheNamespaceIsCached(t *testing.T) {
	w := newWorld(t, shop(nil), offloaded(), export(), web(), bound())
	expectNothing := func(when string) {
		t.Helper()
		if _, err := w.reconcile(t); err != nil {
			t.Fatal(err)
		}
		if wrote := w.writes(); len(wrote) > 0 {
			t.Errorf("writes %q %s", wrote, when)
		}
	}
	w.incomplete = true
	expectNothing("while the Services of the namespace are not cached")
	w.incomplete = false
	w.reconciler.session.Store(nil)
	expectNothing("while the API is not served")
}

// If a process ends at any write, the next process completes or removes the objects that it wrote.
func TestPassIsCompletedAfterTheEndOfAProcessAtEachWrite(t *testing.T) {
	local := slice("web-a", endpoint("10.1.0.1", "worker"))
	for name, test := range map[string]struct {
		objects  []client.Object
		imported []string
	}{
		"export": {
			[]client.Object{shop(nil), offloaded(), export(), web(), local, bound()}, []string{"rome", "rome: 10.1.0.1"},
		},
		"deletion": {
			[]client.Object{shop(nil), offloaded(), web(), local, bound(), imported(exporter, true, "rome"),
				importedSlice(local)}, nil,
		},
	} {
		for number := 0; ; number++ {
			killed := false
			for _, done := range []bool{false, true} {
				w := newWorld(t, test.objects...)
				w.Kill(number, done)
				_, err := w.reconcile(t)
				killed = killed || err != nil
				w.Fault = nil
				for range 3 {
					if _, err := w.reconcile(t); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(setOf(test.imported), setOf(w.imported(t))); diff != "" {
					t.Errorf("%s, write %d, done %t (-want +got):\n%s", name, number, done, diff)
				}
			}
			if !killed {
				break
			}
		}
	}
}

func TestChangesRequestTheServicesThatTheyConcern(t *testing.T) {
	imported := slice("web-imported-1")
	imported.Labels = map[string]string{mcsv1alpha1.LabelServiceName: "web"}
	for name, test := range map[string]struct {
		object client.Object
		want   []string
	}{
		"Service":                     {web(), []string{"web"}},
		"its EndpointSlice":           {slice("web-a"), []string{"web"}},
		"EndpointSlice of its import": {imported, []string{"web"}},
		"EndpointSlice of no other":   {&discoveryv1.EndpointSlice{}, nil},
	} {
		var got []string
		for _, request := range serviceOf(t.Context(), test.object) {
			got = append(got, request.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	importOfWeb := importFor(web(), exporter)
	w := newWorld(t, shop(nil), export(), importOfWeb, web())
	got := w.reconciler.everywhere(t.Context(), foreign("milan", v1alpha1.PeeringNone))
	if diff := cmp.Diff([]reconcile.Request{webRequest, webRequest}, got); diff != "" {
		t.Errorf("all Services (-want +got):\n%s", diff)
	}
	if got := w.reconciler.inNamespaceOf(t.Context(),
		&v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "bank"}}); len(
		got,
	) > 0 {
		t.Errorf("the namespace bank requests %v", got)
	}
}
