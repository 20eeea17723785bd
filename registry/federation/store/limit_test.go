// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/test/etcd"
)

// slices returns a store of ShadowEndpointSlices. change modifies its Kind first.
func slices(t *testing.T, change func(*store.Kind)) *store.REST {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strategy := resource.ShadowEndpointSlices(nil).Strategy(scheme)
	kind := store.Kind{
		Resource: "shadowendpointslices", Singular: "shadowendpointslice",
		New:      func() runtime.Object { return &federation.ShadowEndpointSlice{} },
		NewList:  func() runtime.Object { return &federation.ShadowEndpointSliceList{} },
		Strategy: strategy, StatusStrategy: strategy.Status(), Table: store.Table[*federation.ShadowEndpointSlice]{},
	}
	change(&kind)
	stored, _, err := store.New(kind, etcd.NewOptions(etcd.Start(t),
		serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stored.Destroy)
	return stored
}

func create(ctx context.Context, stored *store.REST, namespace, name string) error {
	_, err := stored.Create(genericapirequest.WithNamespace(ctx, namespace), &federation.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       federation.ShadowEndpointSliceSpec{AddressType: discoveryv1.AddressTypeIPv4},
	}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	return err
}

// awaitCached waits until the watch cache contains count objects, in all namespaces together.
func awaitCached(t *testing.T, stored *store.REST, count int) {
	t.Helper()
	cached := 0
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			list, err := stored.List(genericapirequest.WithNamespace(ctx, ""),
				&internalversion.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return false, err
			}
			cached = meta.LenList(list)
			return cached == count, nil
		}); err != nil {
		t.Fatalf("%d objects are cached, want %d: %v", cached, count, err)
	}
}

func TestLimitHoldsOverNamespacesThatShareIt(t *testing.T) {
	const max = 4
	milanNamespaces := []string{"shop-milan", "web-milan"}
	for _, test := range []struct {
		name     string
		together store.Together
		// fill has the namespaces of the objects to create first. Afterwards, a creation in each namespace of full is
		// refused with the message, and one in each namespace of free succeeds.
		fill, full, free []string
		message          string
	}{
		{"each namespace has its own limit", nil,
			[]string{"web-milan", "web-milan", "web-milan", "web-milan"}, []string{"web-milan"}, []string{"shop-milan",
				"lab-rome"},
			"4 objects exist in the namespace, the limit is 4"},
		{"two namespaces share the limit", func(_ context.Context, namespace string) ([]string, error) {
			if strings.HasSuffix(namespace, "-milan") {
				return milanNamespaces, nil
			}
			return []string{namespace}, nil
		}, []string{"web-milan", "web-milan", "web-milan", "shop-milan", "lab-rome"}, milanNamespaces, []string{"lab-rome"},
			"4 objects exist in 2 namespaces that share the limit, the limit is 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stored := slices(t, func(kind *store.Kind) { kind.Max, kind.Together = max, test.together })
			for i, namespace := range test.fill {
				if err := create(t.Context(), stored, namespace, fmt.Sprintf("slice-%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			awaitCached(t, stored, len(test.fill))
			for _, namespace := range test.full {
				if err := create(t.Context(), stored, namespace, "more"); !apierrors.IsForbidden(err) ||
					!strings.Contains(err.Error(), test.message) {
					t.Errorf("creating another object in %s: %v, want %q", namespace, err, test.message)
				}
			}
			for _, namespace := range test.free {
				if err := create(t.Context(), stored, namespace, "more"); err != nil {
					t.Errorf("creating an object in %s: %v", namespace, err)
				}
			}
		})
	}
}

func TestDependentsCannotBeOrphaned(t *testing.T) {
	stored := slices(t, func(kind *store.Kind) { kind.Dependent = "the EndpointSlice" })
	ctx := genericapirequest.WithNamespace(t.Context(), "web-milan")
	if err := create(ctx, stored, "web-milan", "web"); err != nil {
		t.Fatal(err)
	}
	for _, options := range []*metav1.DeleteOptions{
		{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)},
		{OrphanDependents: ptr.To(true)},
	} {
		if _, _, err := stored.Delete(ctx, "web", rest.ValidateAllObjectFunc, options); !apierrors.IsBadRequest(err) {
			t.Errorf("deleting an object: %v", err)
		}
		if _, err := stored.DeleteCollection(ctx, rest.ValidateAllObjectFunc, options,
			&internalversion.ListOptions{}); !apierrors.IsBadRequest(err) {
			t.Errorf("deleting the collection: %v", err)
		}
	}
	if _, _, err := stored.Delete(ctx, "web", rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
		t.Errorf("deleting an object with its dependents: %v", err)
	}
}
