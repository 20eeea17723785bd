// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagequota limits the shadow volume claims of each consumer to the storage quota of its accepted offers,
// with one ledger for each consumer. A claim counts until it is deleted. If its volume is retained, the volume counts
// from before that until the provider's administrator deletes it or takes it over. Otherwise a consumer could fill the
// provider by creating and deleting claims.
package storagequota

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/reservation/offers"
)

const (
	// maxVolumes is the maximum number of claims and retained volumes of one consumer whose quota does not limit
	// persistentvolumeclaims.
	maxVolumes = 10000
	// maxNames is the maximum number of retained volumes in an error.
	maxNames = 2
)

// Retained returns the PersistentVolumes that the provider retains for a consumer, as volume.Retained selects them. It
// must not read from a cache.
type Retained func(ctx context.Context, consumer string) ([]corev1.PersistentVolume, error)

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
	// Retained are the names of the retained PersistentVolumes that count, sorted, and Storage is their size.
	Retained []string
	Storage  resource.Quantity
}

// Error implements error.
func (e *ErrExceeded) Error() string {
	text := fmt.Sprintf("the storage quota of consumer %s is exceeded: %s", e.Consumer, quota.Sentence(e.Short))
	if len(e.Retained) == 0 {
		return text
	}
	names := strings.Join(e.Retained[:min(len(e.Retained), maxNames)], ", ")
	if more := len(e.Retained) - maxNames; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s; %s are used by retained PersistentVolumes, which an administrator of the provider can delete "+
		"or take over: %s", text, &e.Storage, names)
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
	offers   *offers.Reader
	retained Retained
}

// Open opens the ledgers of storage quotas in the etcd of the federation API. alone means that no other server writes
// to this etcd. It fails if the storage cannot be configured.
func Open(getter generic.RESTOptionsGetter, alone bool, retained Retained) (*Quotas, error) {
	reader, err := offers.Open(getter)
	if err != nil {
		return nil, err
	}
	q := &Quotas{offers: reader, retained: retained}
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

// policy returns the policy of a consumer, computed from its stored offers and its retained volumes, which it reads
// only if the consumer has a storage quota.
func (q *Quotas) policy(ctx context.Context, consumer string) (policy, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	limits, classes := quota.StorageGranted(found)
	var volumes []corev1.PersistentVolume
	// Without storage in the quota, all requests are refused anyway.
	if storage := limits[corev1.ResourceRequestsStorage]; storage.Sign() > 0 {
		if volumes, err = q.retained(ctx, consumer); err != nil {
			return nil, fmt.Errorf("listing the volumes that are retained for consumer %s: %w", consumer, err)
		}
	}
	return within(consumer, limits, classes, volumes), nil
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
// the storage quota of the consumer. Volumes are those that are retained for the consumer.
func within(consumer string, limits corev1.ResourceList, classes []string, volumes []corev1.PersistentVolume) policy {
	_, offered := limits[corev1.ResourceRequestsStorage]
	if _, limited := limits[corev1.ResourcePersistentVolumeClaims]; offered && !limited {
		limits[corev1.ResourcePersistentVolumeClaims] = *resource.NewQuantity(maxVolumes, resource.DecimalSI)
	}
	retained, names := quota.RetainedStorage(volumes), make([]string, len(volumes))
	for i := range volumes {
		names[i] = volumes[i].Name
	}
	slices.Sort(names)
	return func(used used, request Request) (corev1.ResourceList, error) {
		short := quota.StorageShort(limits, used.Sum.Plus(retained).Resources, request.Amounts)
		if offered && !slices.Contains(classes, request.Class) {
			return nil, &ErrClassNotOffered{Consumer: consumer, Class: request.Class, Offered: classes}
		}
		if len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short,
				Retained: names, Storage: retained[corev1.ResourceRequestsStorage]}
		}
		return request.Amounts, nil
	}
}
