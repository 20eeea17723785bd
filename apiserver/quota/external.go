// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ExternalVolumes returns the external volumes of all offers that a consumer has accepted and that
// are valid.
func ExternalVolumes(offers []*v1alpha1.ResourceOffer) v1alpha1.ExternalVolumes {
	types, drivers := sets.New[string](), sets.New[string]()
	for _, offer := range offers {
		if valid(offer) {
			types.Insert(offer.Spec.ExternalVolumes.Types...)
			drivers.Insert(offer.Spec.ExternalVolumes.CSIDrivers...)
		}
	}
	return v1alpha1.ExternalVolumes{Types: sets.List(types), CSIDrivers: sets.List(drivers)}
}
