// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

// exporting sets whether rome serves the ServiceExport API, and its ServiceExports.
func (r *reflecting) exporting(t *testing.T, served bool, exports ...runtime.Object) {
	t.Helper()
	r.LocalDynamic = fakes.Followed(
		dynamicfake.NewSimpleDynamicClientWithCustomListKinds(
			runtime.NewScheme(),
			map[schema.GroupVersionResource]string{exportsResource: "ServiceExportList"},
			exports...),
	)
	r.Served = mcs.NewServed(r.rome.Discovery(), clock.RealClock{}, mcsv1alpha1.ServiceExportPluralName)
	if served {
		r.rome.Discovery().(*fakediscovery.FakeDiscovery).Resources = []*metav1.APIResourceList{
			{
				GroupVersion: mcsv1alpha1.GroupVersion.String(),
				APIResources: []metav1.APIResource{{Name: mcsv1alpha1.ServiceExportPluralName, Namespaced: true}},
			},
		}
	}
}

// discovers watches which APIs rome serves until the test ends.
func (r *reflecting) discovers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Served.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
}

// awaitExported waits until the reflected Service on milan has the label of exported Services, or has not.
func (r *reflecting) awaitExported(t *testing.T, want bool) {
	t.Helper()
	err := kittest.Poll(t, func(ctx context.Context) (bool, error) {
		reflected, err := r.milan.CoreV1().Services("shop-rome").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && translate.Exported(reflected) == want, nil
	})
	if err != nil {
		t.Fatalf("the reflected Service is exported: %t: %v", !want, err)
	}
}

func webExport() *unstructured.Unstructured {
	export := &unstructured.Unstructured{}
	export.SetAPIVersion(mcsv1alpha1.GroupVersion.String())
	export.SetKind(mcsv1alpha1.ServiceExportKindName)
	export.SetNamespace("shop")
	export.SetName("web")
	return export
}

func exportedCopy() *corev1.Service {
	reflected := translate.Service(translate.MarkExported(webService(), true), "shop-rome", destination)
	reflected.UID, reflected.ResourceVersion = "there", "7"
	return reflected
}

func TestReflectedServicesAreMarkedAsExported(t *testing.T) {
	r := newReflecting(t, []runtime.Object{webService()}, nil)
	r.exporting(t, true)
	r.start(t)
	r.discovers(t)
	r.awaitExported(t, false)
	exports := r.LocalDynamic.Resource(exportsResource).Namespace("shop")
	export, err := exports.Create(t.Context(), webExport(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitExported(t, true)
	export = export.DeepCopy()
	export.SetAnnotations(map[string]string{v1alpha1.AnnotationSkipReflection: ""})
	if export, err = exports.Update(t.Context(), export, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitExported(t, false)
	export = export.DeepCopy()
	export.SetAnnotations(nil)
	if _, err = exports.Update(t.Context(), export, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitExported(t, true)
	if err := exports.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitExported(t, false)
}

func TestRestartUnexportsNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		exports []runtime.Object
		served  bool
		want    bool
	}{
		{"exported", []runtime.Object{webExport()}, true, true},
		{"no longer exported", nil, true, false},
		{"ServiceExports are not served", nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReflecting(t, []runtime.Object{webService(), settings("1")}, []runtime.Object{exportedCopy()})
			r.exporting(t, test.served, test.exports...)
			r.start(t)
			// Until ServiceExports are cached, the label is kept.
			r.awaitData(t, "settings", map[string]string{"a": "1"})
			r.awaitExported(t, true)
			r.discovers(t)
			r.awaitExported(t, test.want)
			if !test.want {
				return
			}
			for _, write := range r.writes() {
				if write == "update services" {
					t.Error("the reflected Service was written again")
				}
			}
		})
	}
}
