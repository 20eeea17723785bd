// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podquota keeps each consumer within the quota of its offers: a ledger for each
// consumer holds what its shadow pods use. Finished shadow pods use nothing of the quota,
// but space in etcd: a consumer that keeps too many of them gets no new ones.
package podquota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/ledger"
	"liqo.io/federation/registry/federation/reservation/offers"
)

// ErrExceeded means that the quota of a consumer has no room for a request.
type ErrExceeded struct {
	// Consumer is the name of its ForeignCluster.
	Consumer string
	// Short are the exhausted resources, by name.
	Short []quota.Shortage
}

// Error names the exhausted resources, with what is requested, used, granted and left.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("the quota of consumer %s is exceeded: %s", e.Consumer, quota.Sentence(e.Short))
}

type (
	kind   = ledger.Kind[corev1.ResourceList, corev1.ResourceList, quota.Sum]
	policy = ledger.Policy[corev1.ResourceList, corev1.ResourceList, quota.Sum]
)

// Quotas are the quotas of all consumers.
type Quotas struct {
	*ledger.Ledgers[corev1.ResourceList, corev1.ResourceList, quota.Sum]
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
		Objects: "shadowpods", Ledgers: "ledgers",
		Entry: entry, Policy: q.policy,
		Keep: func(ctx context.Context, consumer string) (bool, error) {
			granted, err := q.granted(ctx, consumer)
			return len(granted) > 0, err
		},
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

// entry returns what a shadow pod uses of the quota of its consumer, until it is finished.
func entry(obj runtime.Object) (consumer string, requests corev1.ResourceList, counts bool) {
	pod, ok := obj.(*federation.ShadowPod)
	if !ok {
		return "", nil, false
	}
	if pod.Status.Phase != "" {
		return pod.Status.ForeignCluster, nil, false
	}
	return pod.Status.ForeignCluster, Uses(pod), true
}

// Uses returns what a shadow pod uses of the quota of its consumer, while it is not
// finished.
func Uses(pod *federation.ShadowPod) corev1.ResourceList {
	return quota.Takes(&pod.Spec.Pod, pod.Status.AllocatedResources)
}

// policy returns the policy of a consumer, from its offers as they are stored now.
func (q *Quotas) policy(ctx context.Context, consumer string) (policy, error) {
	granted, err := q.granted(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return within(consumer, granted), nil
}

// within returns a policy that admits requests while the quota has room, and new shadow
// pods while the consumer does not keep too many finished ones.
func within(consumer string, granted corev1.ResourceList) policy {
	return func(used ledger.Used[quota.Sum], requested corev1.ResourceList) (corev1.ResourceList, error) {
		if most := mayFinish(granted); used.Over >= most && !requested.Pods().IsZero() {
			return nil, &ErrTooManyFinished{Consumer: consumer, Finished: used.Over, Most: most}
		}
		if short := quota.Short(granted, used.Sum.Resources, requested); len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short}
		}
		return requested, nil
	}
}

// granted returns the sum of the offers that a consumer has accepted and that are valid.
func (q *Quotas) granted(ctx context.Context, consumer string) (corev1.ResourceList, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return quota.Granted(found), nil
}

// ExternalVolumes returns the volumes that the pods of a consumer may mount without a
// claim. An error means that the offers cannot be read.
func (q *Quotas) ExternalVolumes(ctx context.Context, consumer string) (v1alpha1.ExternalVolumes, error) {
	found, err := q.offers.Of(ctx, consumer)
	return quota.ExternalVolumes(found), err
}
