// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const invitationPrefix = "invitation-"

// InvitationSecret is the Secret in the installation namespace of a consumer
// that holds the invitation of the foreign cluster.
func InvitationSecret(foreignCluster string) string { return invitationPrefix + foreignCluster }

// InvitationAccount is the service account that stands for an invitation, and
// the name of the IdentityRequest that it buys. token is the UID of the
// PeeringToken.
func InvitationAccount(token types.UID) string { return invitationPrefix + string(token) }

// InvitationOfAccount is the UID of the PeeringToken that a service account
// stands for, and false for other service accounts.
func InvitationOfAccount(account string) (types.UID, bool) {
	uid, ok := strings.CutPrefix(account, invitationPrefix)
	return types.UID(uid), ok && uid != ""
}

// InvitationExpiry is when an invitation ends that was created then and is
// good for so many seconds; without a number, for the default.
func InvitationExpiry(created time.Time, seconds *int64) time.Time {
	lifetime := v1alpha1.DefaultTokenExpirationSeconds
	if seconds != nil {
		lifetime = *seconds
	}
	return created.Add(time.Duration(lifetime) * time.Second)
}
