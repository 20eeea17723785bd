// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podquota limits the shadow pods of each consumer to the quota of its accepted offers, with one ledger for
// each consumer. Finished shadow pods use no quota, but space in etcd: a consumer with too many of them may not create
// new ones.
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

// ErrExceeded means that a request would exceed the quota of a consumer.
type ErrExceeded struct {
	// Consumer is the name of the consumer's ForeignCluster.
	Consumer string
	// Short are the exceeded resources, sorted by name.
	Short []quota.Shortage
}

// Error implements error. The text has the requested, used and remaining amounts of each exceeded resource.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("the quota of consumer %s is exceeded: %s", e.Consumer, quota.Sentence(e.Short))
}

type (
	kind   = ledger.Kind[corev1.ResourceList, corev1.ResourceList, quota.Sum]
	policy = ledger.Policy[corev1.ResourceList, corev1.ResourceList, quota.Sum]
)

// Quotas has the quotas and ledgers of all consumers.
type Quotas struct {
	*ledger.Ledgers[corev1.ResourceList, corev1.ResourceList, quota.Sum]
	offers *offers.Reader
}

// Open opens the ledgers of pod quotas in the etcd of the federation API. alone means that no other server writes to
// this etcd. It fails if the storage cannot be configured.
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
			limits, err := q.limits(ctx, consumer)
			return len(limits) > 0, err
		},
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

// entry implements ledger.Kind.Entry with the quota usage of a shadow pod. A finished shadow pod does not count.
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

// Uses returns the quota usage of a shadow pod that is not finished.
func Uses(pod *federation.ShadowPod) corev1.ResourceList {
	return quota.Takes(&pod.Spec.Pod, pod.Status.AllocatedResources)
}

// policy returns the policy of a consumer, computed from its stored offers.
func (q *Quotas) policy(ctx context.Context, consumer string) (policy, error) {
	limits, err := q.limits(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return within(consumer, limits), nil
}

// within returns a policy that admits a request within limits, the quota of the consumer. It refuses new shadow pods
// while the consumer keeps too many finished ones.
func within(consumer string, limits corev1.ResourceList) policy {
	return func(used ledger.Used[quota.Sum], requested corev1.ResourceList) (corev1.ResourceList, error) {
		if most := mayFinish(limits); used.Over >= most && !requested.Pods().IsZero() {
			return nil, &ErrTooManyFinished{Consumer: consumer, Finished: used.Over, Most: most}
		}
		if short := quota.Short(limits, used.Sum.Resources, requested); len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short}
		}
		return requested, nil
	}
}

// limits returns the quota of a consumer: the sum of its accepted offers, without those that are withdrawn or being
// deleted.
func (q *Quotas) limits(ctx context.Context, consumer string) (corev1.ResourceList, error) {
	found, err := q.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return quota.Granted(found), nil
}

// ExternalVolumes returns the types of volumes and the CSI drivers that pods of a consumer may use without a claim. It
// fails if the offers cannot be read.
func (q *Quotas) ExternalVolumes(ctx context.Context, consumer string) (v1alpha1.ExternalVolumes, error) {
	found, err := q.offers.Of(ctx, consumer)
	return quota.ExternalVolumes(found), err
}
