// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// ResourceOffers is the definition of ResourceOffers. A provider writes its offers into tenant namespaces. So this
// cluster wrote an offer in a tenant namespace, and a peer wrote any other one.
var ResourceOffers = Kind[*federation.ResourceOffer, federation.ResourceOfferSpec, federation.ResourceOfferStatus]{
	Resource: "resourceoffers", Singular: "resourceoffer", ShortNames: []string{"ro"},
	New:        func() runtime.Object { return &federation.ResourceOffer{} },
	NewList:    func() runtime.Object { return &federation.ResourceOfferList{} },
	Namespaced: true,
	Parts: func(obj *federation.ResourceOffer) (*federation.ResourceOfferSpec, *federation.ResourceOfferStatus) {
		return &obj.Spec, &obj.Status
	},
	Validate:             validation.ValidateResourceOffer,
	ValidateUpdate:       validation.ValidateResourceOfferUpdate,
	ValidateStatusUpdate: validation.ValidateResourceOfferStatusUpdate,
	Fields: func(obj *federation.ResourceOffer) fields.Set {
		return fields.Set{"spec.clusterID": obj.Spec.ClusterID, "status.phase": string(obj.Status.Phase)}
	},
	Columns: append(Negotiated(
		func(o *federation.ResourceOffer) bool { return naming.IsTenantNamespace(o.Namespace) },
		func(o *federation.ResourceOffer) (federation.NegotiationPhase, bool) {
			return o.Status.Phase, o.Spec.Withdrawn
		},
		func(o *federation.ResourceOffer) corev1.ResourceList { return o.Spec.Resources },
	), store.Column[*federation.ResourceOffer]{
		Name: "Shape", Wide: true, Description: "whether the offer is Aggregate, or PerNode with a list of nodes",
		Cell: func(o *federation.ResourceOffer) any {
			if len(o.Spec.Nodes) > 0 {
				return string(federation.OfferPerNode)
			}
			return string(federation.OfferAggregate)
		},
	}, store.Column[*federation.ResourceOffer]{
		Name: "Nodes", Type: "integer", Wide: true, Description: "number of nodes in an offer of shape PerNode",
		Cell: func(o *federation.ResourceOffer) any {
			return int64(len(o.Spec.Nodes))
		},
	}),
}
