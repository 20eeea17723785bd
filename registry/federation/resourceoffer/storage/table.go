// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
)

// table calls an offer local where its author is: in the namespace that a
// provider gave its consumer.
var table = append(store.Negotiated(
	func(o *federation.ResourceOffer) bool { return naming.IsTenantNamespace(o.Namespace) },
	func(o *federation.ResourceOffer) (federation.NegotiationPhase, bool) {
		return o.Status.Phase, o.Spec.Withdrawn
	},
	func(o *federation.ResourceOffer) corev1.ResourceList { return o.Spec.Resources },
), store.Column[*federation.ResourceOffer]{
	Name: "Shape", Wide: true, Description: "whether nodes are offered as a whole or one by one", Cell: func(o *federation.ResourceOffer) any {
		if len(o.Spec.Nodes) > 0 {
			return string(federation.OfferPerNode)
		}
		return string(federation.OfferAggregate)
	},
}, store.Column[*federation.ResourceOffer]{
	Name: "Nodes", Type: "integer", Wide: true, Description: "how many nodes are offered one by one", Cell: func(o *federation.ResourceOffer) any {
		return int64(len(o.Spec.Nodes))
	},
})
