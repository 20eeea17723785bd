// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offers reads the ResourceOffers of consumers from etcd.
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

// Reader reads ResourceOffers from etcd and not from a cache, so that a reduced offer limits the next request.
type Reader struct {
	objects *ledger.Objects
}

// Open returns a Reader of the federation API's etcd. It fails if the storage cannot be configured.
func Open(getter generic.RESTOptionsGetter) (*Reader, error) {
	objects, err := ledger.OpenObjects(getter, "resourceoffers",
		func() runtime.Object { return &federation.ResourceOffer{} },
		func() runtime.Object { return &federation.ResourceOfferList{} })
	if err != nil {
		return nil, err
	}
	return &Reader{objects: objects}, nil
}

// Close closes the connections that Open opened.
func (r *Reader) Close() { r.objects.Close() }

// Of returns all ResourceOffers to a consumer, including those that it has not accepted. consumer is the name of its
// ForeignCluster.
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
