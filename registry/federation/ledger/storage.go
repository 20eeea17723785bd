// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules"
	"liqo.io/federation/apiserver/rules/quota"
)

// Open makes the ledgers over the storage of the federation API. Offers and
// ledgers are read from it directly, and not from a cache: a grant that is
// lowered is lowered for the next shadow pod. Alone says that no other server
// writes there. An error means that the storage cannot be reached.
func Open(getter generic.RESTOptionsGetter, alone bool) (*Ledgers, error) {
	ledgers, prefix, closeLedgers, err := open(getter, "ledgers", true, func() runtime.Object { return &Ledger{} }, func() runtime.Object { return &List{} })
	if err != nil {
		return nil, err
	}
	offers, offersPrefix, closeOffers, err := open(getter, "resourceoffers", false,
		func() runtime.Object { return &federation.ResourceOffer{} }, func() runtime.Object { return &federation.ResourceOfferList{} })
	if err != nil {
		closeLedgers()
		return nil, err
	}
	l := newLedgers(ledgers, prefix, func(ctx context.Context, consumer string) (corev1.ResourceList, error) {
		list := &federation.ResourceOfferList{}
		options := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		if err := offers.GetList(ctx, offersPrefix+"/"+rules.TenantNamespace(consumer)+"/", options, list); err != nil {
			return nil, err
		}
		converted := &v1alpha1.ResourceOfferList{}
		if err := v1alpha1.Convert_federation_ResourceOfferList_To_v1alpha1_ResourceOfferList(list, converted, nil); err != nil {
			return nil, err
		}
		found := make([]*v1alpha1.ResourceOffer, len(converted.Items))
		for i := range converted.Items {
			found[i] = &converted.Items[i]
		}
		return quota.Granted(found), nil
	}, alone)
	l.close = func() {
		closeLedgers()
		closeOffers()
	}
	return l, nil
}

// open makes an uncached storage. What is no resource of the API has a codec
// of its own.
func open(getter generic.RESTOptionsGetter, resource string, ours bool, newObject, newList func() runtime.Object) (storage.Interface, string, factory.DestroyFunc, error) {
	options, err := getter.GetRESTOptions(federation.Resource(resource), newObject())
	if err != nil {
		return nil, "", nil, fmt.Errorf("finding the storage of %s: %w", resource, err)
	}
	config := *options.StorageConfig
	if ours {
		config.Codec = codec
	}
	prefix := "/" + strings.Trim(options.ResourcePrefix, "/")
	opened, closeStorage, err := generic.NewRawStorage(&config, newObject, newList, prefix)
	if err != nil {
		return nil, "", nil, fmt.Errorf("setting up the storage of %s: %w", resource, err)
	}
	return opened, prefix, closeStorage, nil
}

// Close ends what Open has started.
func (l *Ledgers) Close() { l.close() }

func (l *Ledgers) key(consumer string) string { return l.prefix + "/" + consumer }
