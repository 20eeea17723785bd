// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

// Negotiated returns the columns that ResourceRequests and ResourceOffers share. local reports whether this cluster
// wrote the object, status returns its phase and whether it was withdrawn, and resources returns its amounts.
func Negotiated[P runtime.Object](
	local func(P) bool, status func(P) (phase federation.NegotiationPhase, withdrawn bool),
	resources func(P) corev1.ResourceList,
) store.Table[P] {
	table := store.Table[P]{
		{Name: "Local", Type: "boolean",
			Description: "whether this cluster wrote the object; otherwise the peer did", Cell: func(obj P) any {
				return local(obj)
			}},
		{Name: "Status", Description: "phase of the negotiation", Cell: func(obj P) any {
			phase, withdrawn := status(obj)
			switch {
			case withdrawn:
				return string(federation.NegotiationWithdrawn)
			case phase == "":
				return string(federation.NegotiationPending)
			default:
				return string(phase)
			}
		}},
	}
	for _, column := range []struct {
		name     string
		resource corev1.ResourceName
	}{{"CPU", corev1.ResourceCPU}, {"Memory", corev1.ResourceMemory}, {"Pods", corev1.ResourcePods}} {
		table = append(table, store.Column[P]{
			Name: column.name, Description: "amount of " + string(column.resource),
			Cell: func(obj P) any { return store.Quantity(resources(obj), column.resource) },
		})
	}
	return table
}
