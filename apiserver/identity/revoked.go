// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ReasonIdentityRevoked of the condition Authenticated of a ForeignCluster means that the provider revoked the identity
// of the local cluster. Unpeer, or peer again with a new invitation: docs/peerings.md#identities.
const ReasonIdentityRevoked = "IdentityRevoked"

// RevokedSince returns the time since which the identity of the local cluster at a provider is revoked;
// ok is false if it is not revoked.
func RevokedSince(fc *v1alpha1.ForeignCluster) (since time.Time, ok bool) {
	condition := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionAuthenticated)
	if condition == nil || condition.Reason != ReasonIdentityRevoked {
		return time.Time{}, false
	}
	return condition.LastTransitionTime.Time, true
}
