// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagequota limits the shadow volume claims of each consumer to the storage quota of its accepted offers,
// with one ledger for each consumer. A claim counts until it is deleted.
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

// Request is the request of a ShadowVolumeClaim, either a new one or one that grows.
type Request struct {
	// Class is the name of the provider's StorageClass.
	Class string
	// Amounts are the quota usage of a new claim, or the additional usage of a growing one.
	Amounts corev1.ResourceList
}

// ErrExceeded means that a request would exceed the storage quota of a consumer.
type ErrExceeded struct {
	// Consumer is the name of the consumer's ForeignCluster.
	Consumer string
	// Short are the exceeded resources, sorted by name.
	Short []quota.Shortage
}

// Error implements error.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("the storage quota of consumer %s is exceeded: %s", e.Consumer, quota.Sentence(e.Short))
}

// ErrClassNotOffered means that the consumer has a storage quota, but a claim requests a StorageClass that none of its
// accepted offers contains.
type ErrClassNotOffered struct {
	// Consumer is the name of the consumer's ForeignCluster.
	Consumer string
	// Class is the requested StorageClass, and Offered are the classes in the accepted offers.
	Class   string
	Offered []string
}

// Error implements error.
func (e *ErrClassNotOffered) Error() string {
	return fmt.Sprintf("storage class %q is not offered to consumer %s: use one of %q", e.Class, e.Consumer, e.Offered)
}

type (
	kind   = ledger.Kind[Request, corev1.ResourceList, quota.Sum]
	policy = ledger.Policy[Request, corev1.ResourceList, quota.Sum]
	used   = ledger.Used[quota.Sum]
)

// Quotas has the storage quotas and ledgers of all consumers.
type Quotas struct {
	*ledger.Ledgers[Request, corev1.ResourceList, quota.Sum]
	offers *offers.Reader
}

// Open opens the ledgers of storage quotas in the etcd of the federation API. alone means that no other server writes
// to this etcd. It fails if the storage cannot be configured.
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

// Close closes the connections that Open opened.
func (q *Quotas) Close() {
	q.Ledgers.Close()
	q.offers.Close()
}

// Uses returns the quota usage of a claim: the largest of its requested, allocated and actual size, because the
// provider may have to store any of them.
func Uses(claim *federation.ShadowVolumeClaim) corev1.ResourceList {
	return quota.ClaimStorage(claim.Spec.StorageClassName, &claim.Spec.Storage, claim.Status.Allocated,
		claim.Status.Capacity)
}

// entry implements ledger.Kind.Entry with the quota usage of a claim. Every claim counts until it is deleted.
func entry(obj runtime.Object) (consumer string, uses corev1.ResourceList, counts bool) {
	claim, ok := obj.(*federation.ShadowVolumeClaim)
	if !ok {
		return "", nil, false
	}
	return claim.Status.ForeignCluster, Uses(claim), true
}

// policy returns the policy of a consumer, computed from its stored offers.
func (q *Quotas) policy(ctx context.Context, consumer string) (policy, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	limits, classes := quota.StorageGranted(found)
	return within(consumer, limits, classes), nil
}

// keep reports whether a consumer has a storage quota: its ledger is then kept while it has no usage.
func (q *Quotas) keep(ctx context.Context, consumer string) (bool, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return false, err
	}
	limits, _ := quota.StorageGranted(found)
	return len(limits) > 0, nil
}

// within returns a policy that admits a request if its StorageClass is one of classes and if it does not exceed limits,
// the storage quota of the consumer.
func within(consumer string, limits corev1.ResourceList, classes []string) policy {
	return func(used used, request Request) (corev1.ResourceList, error) {
		short := quota.StorageShort(limits, used.Sum.Resources, request.Amounts)
		if _, offered := limits[corev1.ResourceRequestsStorage]; offered && !slices.Contains(classes, request.Class) {
			return nil, &ErrClassNotOffered{Consumer: consumer, Class: request.Class, Offered: classes}
		}
		if len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short}
		}
		return request.Amounts, nil
	}
}
