// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ExternalVolumes returns the volume types and CSI drivers in the valid offers of a consumer, without duplicates and
// sorted; Granted defines valid.
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
