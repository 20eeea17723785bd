// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagequota keeps each consumer within the storage quota of its offers: a
// ledger for each consumer holds what its shadow volume claims reserve, until they are
// gone.
package storagequota

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/reservation/offers"
)

// Request is what a claim requests: to be created, or to grow.
type Request struct {
	// Class is the provider's storage class.
	Class string
	// Amounts are what the claim uses of the quota, or uses in addition.
	Amounts corev1.ResourceList
}

// ErrExceeded means that the storage quota of a consumer has no room for a request.
type ErrExceeded struct {
	// Consumer is the name of its ForeignCluster.
	Consumer string
	// Short are the exhausted resources, by name.
	Short []quota.Shortage
}

// Error names the exhausted resources.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("the storage quota of consumer %s is exceeded: %s", e.Consumer, quota.Sentence(e.Short))
}

// ErrClassNotOffered means that a consumer requests a storage class that none of its
// offers names.
type ErrClassNotOffered struct {
	// Consumer is the name of its ForeignCluster.
	Consumer string
	// Class is the requested class, and Offered are those that the offers name.
	Class   string
	Offered []string
}

// Error names the class and those that are offered.
func (e *ErrClassNotOffered) Error() string {
	return fmt.Sprintf("storage class %q is not offered to consumer %s: offered are %q", e.Class, e.Consumer, e.Offered)
}

type (
	kind   = ledger.Kind[Request, corev1.ResourceList, quota.Sum]
	policy = ledger.Policy[Request, corev1.ResourceList, quota.Sum]
	used   = ledger.Used[quota.Sum]
)

// Quotas are the storage quotas of all consumers.
type Quotas struct {
	*ledger.Ledgers[Request, corev1.ResourceList, quota.Sum]
	offers *offers.Reader
}

// Open opens the quotas in the storage of the federation API; alone means that no other
// server writes there. An error means that the storage cannot be reached.
func Open(getter generic.RESTOptionsGetter, alone bool) (*Quotas, error) {
	reader, err := offers.Open(getter)
	if err != nil {
		return nil, err
	}
	q := &Quotas{offers: reader}
	if q.Ledgers, err = ledger.Open(kind{
		Objects: "shadowvolumeclaims", Ledgers: "storageledgers",
		Entry: entry, Policy: q.policy, Keep: q.keep,
	}, getter, alone); err != nil {
		reader.Close()
		return nil, err
	}
	return q, nil
}

// Close closes what Open has opened.
func (q *Quotas) Close() {
	q.Ledgers.Close()
	q.offers.Close()
}

// Uses returns what a claim uses of the storage quota of its consumer: the largest of
// the requested, the allocated and the actual size, since each may be the one that the
// provider has to store.
func Uses(claim *federation.ShadowVolumeClaim) corev1.ResourceList {
	return quota.ClaimStorage(claim.Spec.StorageClassName, &claim.Spec.Storage, claim.Status.Allocated,
		claim.Status.Capacity)
}

// entry returns what a claim uses, until it is gone.
func entry(obj runtime.Object) (consumer string, uses corev1.ResourceList, counts bool) {
	claim, ok := obj.(*federation.ShadowVolumeClaim)
	if !ok {
		return "", nil, false
	}
	return claim.Status.ForeignCluster, Uses(claim), true
}

// policy returns the policy of a consumer, from the offers as they are stored now.
func (q *Quotas) policy(ctx context.Context, consumer string) (policy, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	granted, classes := quota.StorageGranted(found)
	return within(consumer, granted, classes), nil
}

// keep reports whether the ledger of a consumer stays while it uses nothing.
func (q *Quotas) keep(ctx context.Context, consumer string) (bool, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return false, err
	}
	granted, _ := quota.StorageGranted(found)
	return len(granted) > 0, nil
}

// within returns a policy that admits requests for offered classes while the quota has room.
func within(consumer string, granted corev1.ResourceList, classes []string) policy {
	return func(used used, request Request) (corev1.ResourceList, error) {
		short := quota.StorageShort(granted, used.Sum.Resources, request.Amounts)
		if _, offered := granted[corev1.ResourceRequestsStorage]; offered && !slices.Contains(classes, request.Class) {
			return nil, &ErrClassNotOffered{Consumer: consumer, Class: request.Class, Offered: classes}
		}
		if len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short}
		}
		return request.Amounts, nil
	}
}
