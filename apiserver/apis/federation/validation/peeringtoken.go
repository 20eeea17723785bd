// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// minTokenSeconds is the minimum lifetime of a token in the TokenRequest API.
	minTokenSeconds int64 = 600
	// maxTokenSeconds is the maximum lifetime of an invitation, a week.
	maxTokenSeconds int64 = 604800
)

// ValidatePeeringToken validates a new peering token.
func ValidatePeeringToken(token *federation.PeeringToken) field.ErrorList {
	errs := metadata(token, false)
	errs = append(errs, optional(token.Spec.ConsumerClusterID, specPath.Child("consumerClusterID"), clusterID)...)
	errs = append(errs, oneOf(token.Spec.Mode, specPath.Child("mode"), "",
		federation.PeeringOutOfBand, federation.PeeringInBand)...)
	errs = append(errs, peeringTrust(token.Spec.Trust, specPath.Child("trust"))...)
	return append(errs, seconds(token.Spec.ExpirationSeconds, minTokenSeconds, maxTokenSeconds,
		specPath.Child("expirationSeconds"))...)
}

// ValidatePeeringTokenUpdate validates an update of a peering token. The spec cannot change.
func ValidatePeeringTokenUpdate(token, old *federation.PeeringToken) field.ErrorList {
	errs := metadataUpdate(token, old)
	return append(errs, immutable(token.Spec, old.Spec, specPath)...)
}

// ValidatePeeringTokenStatusUpdate validates an update of the status of a peering token. used
// cannot change from true to false, and usedBy cannot change once it is set.
func ValidatePeeringTokenStatusUpdate(token, old *federation.PeeringToken) field.ErrorList {
	errs := metadataUpdate(token, old)
	if old.Status.Used && !token.Status.Used {
		errs = append(errs, field.Invalid(statusPath.Child("used"), token.Status.Used,
			"must not change from true to false"))
	}
	if token.Status.UsedBy != "" && !token.Status.Used {
		errs = append(errs, field.Invalid(statusPath.Child("used"), token.Status.Used, "must be true if usedBy is set"))
	}
	errs = append(errs, ownGateway(token.Status.Gateway)...)
	errs = append(errs, onceSet(token.Status.UsedBy, old.Status.UsedBy, statusPath.Child("usedBy"))...)
	return append(errs, optional(token.Status.UsedBy, statusPath.Child("usedBy"), clusterID)...)
}
