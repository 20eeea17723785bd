// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// terms limit the resources and nodes in an offer to one consumer.
type terms struct {
	percent int
	// most has, for each resource, the lower one of the policy's limit and the requested quantity.
	most         corev1.ResourceList
	nodeSelector map[string]string
	// perNode is true if each node is offered by itself, with its labels whose keys are in nodeLabels.
	perNode    bool
	nodeLabels []string
}

// terms returns the terms of the policy, which fields of the ForeignCluster override, limited by
// what the consumer requests.
func (p *Policy) terms(incoming *v1alpha1.IncomingPolicy, requested corev1.ResourceList) terms {
	t := terms{
		percent: p.SharePercent, most: corev1.ResourceList{}, nodeSelector: p.SharedNodes(incoming),
		perNode:    cmp.Or(incoming.Shape, v1alpha1.OfferShape(p.Shape)) == v1alpha1.OfferPerNode,
		nodeLabels: slices.Concat(alwaysOffered, p.NodeLabels),
	}
	if incoming.SharePercent != nil {
		t.percent = int(*incoming.SharePercent)
	}
	for name, value := range p.Limits {
		// Validation has ensured that limits can be parsed.
		if quantity, err := resource.ParseQuantity(value); err == nil {
			t.most[corev1.ResourceName(name)] = quantity
		}
	}
	maps.Copy(t.most, incoming.Limits)
	for name, quantity := range requested {
		// Storage is offered by setting a limit, so a request for storage must not become one.
		if _, offered := t.most[name]; v1alpha1.IsStorage(name) && !offered {
			continue
		}
		if limit, ok := t.most[name]; !ok || quantity.Cmp(limit) < 0 {
			t.most[name] = quantity
		}
	}
	return t
}

// SharedNodes returns the labels of the nodes that are shared with a consumer. Only their resources are
// offered, and only they run the consumer's pods. Empty selects all nodes.
func (p *Policy) SharedNodes(incoming *v1alpha1.IncomingPolicy) map[string]string {
	if len(incoming.NodeSelector) > 0 {
		return incoming.NodeSelector
	}
	return p.NodeSelector
}
