// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grants keeps consumers within what they were granted: each has a
// ledger of the room that its shadow pods take. Those that are finished take
// nothing of the grant, but room in the storage: there is a number of them with
// which a consumer gets no new ones.
package grants

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/ledger"
	"liqo.io/federation/registry/federation/offers"
)

// ErrExceeded is what a consumer is refused with: it was granted too little.
type ErrExceeded struct {
	// Consumer is the ForeignCluster.
	Consumer string
	// Short are the resources that are short, by name.
	Short []quota.Shortage
}

// Error says which resource is short, how much of it is asked for, used,
// granted and left.
func (e *ErrExceeded) Error() string {
	return fmt.Sprintf("consumer %s is granted too little: %s", e.Consumer, quota.Sentence(e.Short))
}

// Grants are what shadow pods are created within.
type Grants struct {
	*ledger.Ledgers[corev1.ResourceList, corev1.ResourceList, quota.Sum]
	offers *offers.Reader
}

// Open makes the grants over the storage of the federation API. Offers are read
// from it directly, and not from a cache: a grant that is lowered is lowered for
// the next shadow pod. Alone says that no other server writes there. An error
// means that the storage cannot be reached.
func Open(getter generic.RESTOptionsGetter, alone bool) (*Grants, error) {
	reader, err := offers.Open(getter)
	if err != nil {
		return nil, err
	}
	g := &Grants{offers: reader}
	if g.Ledgers, err = ledger.Open(ledger.Kind[corev1.ResourceList, corev1.ResourceList, quota.Sum]{
		Objects: "shadowpods", Ledgers: "ledgers",
		Entry: entry, Terms: g.terms,
		Keep: func(ctx context.Context, consumer string) (bool, error) {
			granted, err := g.granted(ctx, consumer)
			return len(granted) > 0, err
		},
	}, getter, alone); err != nil {
		reader.Close()
		return nil, err
	}
	return g, nil
}

// Close ends what Open has started.
func (g *Grants) Close() {
	g.Ledgers.Close()
	g.offers.Close()
}

// entry is what a shadow pod takes of what its consumer was granted, until it is
// finished.
func entry(obj runtime.Object) (consumer string, requests corev1.ResourceList, counts bool) {
	pod, ok := obj.(*federation.ShadowPod)
	if !ok {
		return "", nil, false
	}
	if pod.Status.Phase != "" {
		return pod.Status.ForeignCluster, nil, false
	}
	return pod.Status.ForeignCluster, Takes(pod), true
}

// Takes is what a shadow pod takes of what its consumer was granted, while it is
// not finished.
func Takes(pod *federation.ShadowPod) corev1.ResourceList {
	return quota.Takes(&pod.Spec.Pod, pod.Status.AllocatedResources)
}

// terms are those of a consumer with what it was granted.
func (g *Grants) terms(ctx context.Context, consumer string) (ledger.Terms[corev1.ResourceList, corev1.ResourceList, quota.Sum], error) {
	granted, err := g.granted(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return within(consumer, granted), nil
}

// within lets a consumer have what it was granted, and new shadow pods while it
// keeps few enough that are finished.
func within(consumer string, granted corev1.ResourceList) ledger.Terms[corev1.ResourceList, corev1.ResourceList, quota.Sum] {
	return func(used ledger.Used[quota.Sum], asked corev1.ResourceList) (corev1.ResourceList, error) {
		if most := mayFinish(granted); used.Over >= most && !asked.Pods().IsZero() {
			return nil, &ErrTooManyFinished{Consumer: consumer, Finished: used.Over, Most: most}
		}
		if short := quota.Short(granted, used.Sum.Resources, asked); len(short) > 0 {
			return nil, &ErrExceeded{Consumer: consumer, Short: short}
		}
		return asked, nil
	}
}

// granted sums the offers that a consumer has accepted and that stand.
func (g *Grants) granted(ctx context.Context, consumer string) (corev1.ResourceList, error) {
	found, err := g.offers.Of(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return quota.Granted(found), nil
}

// ExternalVolumes returns the volumes that the pods of a consumer may mount without a
// claim. An error means that the offers cannot be read.
func (g *Grants) ExternalVolumes(ctx context.Context, consumer string) (v1alpha1.ExternalVolumes, error) {
	found, err := g.offers.Of(ctx, consumer)
	return quota.ExternalVolumes(found), err
}
