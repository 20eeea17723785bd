// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// PodPolicies returns the limits for pods in the valid offers of a consumer, without duplicates; Granted defines valid.
// A pod must be within all limits, because it does not belong to one particular offer.
func PodPolicies(offers []*v1alpha1.ResourceOffer) []*v1alpha1.PodPolicy {
	var policies []*v1alpha1.PodPolicy
	for _, offer := range offers {
		policy := offer.Spec.Pods
		same := func(other *v1alpha1.PodPolicy) bool { return apiequality.Semantic.DeepEqual(other, policy) }
		if valid(offer) && policy != nil && !slices.ContainsFunc(policies, same) {
			policies = append(policies, policy)
		}
	}
	return policies
}
