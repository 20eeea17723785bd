// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"maps"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// UpdateEndpointSlice copies labels, owner references, ports and endpoints of the wanted EndpointSlice to an existing
// one, and reports whether any differed. Other fields stay, for example annotations.
func UpdateEndpointSlice(existing, wanted *discoveryv1.EndpointSlice) bool {
	if maps.Equal(existing.Labels, wanted.Labels) &&
		equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(existing.Ports, wanted.Ports) &&
		equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {
		return false
	}
	existing.Labels, existing.OwnerReferences = wanted.Labels, wanted.OwnerReferences
	existing.Ports, existing.Endpoints = wanted.Ports, wanted.Endpoints
	return true
}
