// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offers reads the offers of consumers from etcd.
package offers

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/reservation/ledger"
)

// Reader reads offers from etcd, not from a cache: an offer that was lowered bounds the
// next request.
type Reader struct {
	objects *ledger.Objects
}

// Open returns a reader of the storage of the federation API. An error means that the
// storage cannot be reached.
func Open(getter generic.RESTOptionsGetter) (*Reader, error) {
	objects, err := ledger.OpenObjects(getter, "resourceoffers",
		func() runtime.Object { return &federation.ResourceOffer{} },
		func() runtime.Object { return &federation.ResourceOfferList{} })
	if err != nil {
		return nil, err
	}
	return &Reader{objects: objects}, nil
}

// Close closes what Open has opened.
func (r *Reader) Close() { r.objects.Close() }

// Of returns all offers to a consumer, the name of its ForeignCluster, also those that
// it has not accepted.
func (r *Reader) Of(ctx context.Context, consumer string) ([]*v1alpha1.ResourceOffer, error) {
	stored := &federation.ResourceOfferList{}
	if err := r.objects.List(ctx, naming.TenantNamespace(consumer), stored); err != nil {
		return nil, err
	}
	converted := &v1alpha1.ResourceOfferList{}
	if err := v1alpha1.Convert_federation_ResourceOfferList_To_v1alpha1_ResourceOfferList(stored, converted,
		nil); err != nil {
		return nil, err
	}
	offers := make([]*v1alpha1.ResourceOffer, len(converted.Items))
	for i := range converted.Items {
		offers[i] = &converted.Items[i]
	}
	return offers, nil
}
