// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registrytest is the common fixture of tests that run storages of the federation API on an etcd, with the
// ledgers of their reservations.
package registrytest

import (
	"context"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/test/etcd"
)

// Options returns the scheme of the API, and storage options for the etcd at endpoint.
func Options(endpoint string) (*runtime.Scheme, etcd.Options) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme, etcd.NewOptions(endpoint,
		serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion))
}

// Ledgers are the ledgers of one kind of reservations.
type Ledgers interface {
	// WaitForObjects returns when the ledgers have read the objects that exist.
	WaitForObjects(ctx context.Context) error
	// Close releases the storage of the ledgers.
	Close()
}

// Run calls each function until stop is called or the test ends, and returns when the ledgers have read the objects
// that exist. stop waits until the functions have returned, destroys the storages and closes the ledgers.
func Run(
	t testing.TB, ledgers Ledgers, storages []interface{ Destroy() }, functions ...func(context.Context),
) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, function := range functions {
		group.Go(func() { function(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		for _, storage := range storages {
			storage.Destroy()
		}
		ledgers.Close()
	})
	t.Cleanup(stop)
	if err := ledgers.WaitForObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	return stop
}

// Offers stores the ResourceOffers of consumers, in their tenant namespaces.
type Offers struct {
	*store.REST
	status *store.StatusREST
}

// NewOffers returns a storage of ResourceOffers.
func NewOffers(t testing.TB, scheme *runtime.Scheme, options etcd.Options) Offers {
	t.Helper()
	offers, status, err := resource.ResourceOffers.Storage(scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	return Offers{REST: offers, status: status}
}

// Accepted creates a ResourceOffer that the consumer has accepted.
func (o Offers) Accepted(t testing.TB, consumer, name string, spec federation.ResourceOfferSpec) {
	t.Helper()
	spec.ClusterID = "6c2a3f0e-1b7d-4f57-9a52-0a9f4f1f0c11"
	namespace := naming.TenantNamespace(consumer)
	if _, err := o.Create(genericapirequest.WithNamespace(t.Context(), namespace), &federation.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec,
	}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.Answer(t, consumer, name, federation.NegotiationAccepted)
}

// Answer writes the phase of a ResourceOffer, as the consumer does.
func (o Offers) Answer(t testing.TB, consumer, name string, phase federation.NegotiationPhase) {
	t.Helper()
	update(t, o.status, consumer, name, func(offer *federation.ResourceOffer) { offer.Status.Phase = phase })
}

// Change updates the spec of a ResourceOffer.
func (o Offers) Change(t testing.TB, consumer, name string, change func(*federation.ResourceOffer)) {
	t.Helper()
	update(t, o.REST, consumer, name, change)
}

func update(t testing.TB, storage rest.Updater, consumer, name string, change func(*federation.ResourceOffer)) {
	t.Helper()
	ctx := genericapirequest.WithNamespace(t.Context(), naming.TenantNamespace(consumer))
	if _, _, err := storage.Update(ctx, name, Changed(change), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Changed returns an update that applies change to the stored object.
func Changed[P interface {
	runtime.Object
	DeepCopy() P
}](change func(P)) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		object := old.(P).DeepCopy()
		change(object)
		return object, nil
	})
}
