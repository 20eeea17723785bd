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

// InvitationSecret returns the name of the Secret with the invitation of a foreign cluster, in the
// installation namespace of the consumer.
func InvitationSecret(foreignCluster string) string { return invitationPrefix + foreignCluster }

// InvitationAccount returns the name of the service account of an invitation, and of its
// IdentityRequest. token is the UID of the PeeringToken.
func InvitationAccount(token types.UID) string { return invitationPrefix + string(token) }

// InvitationOfAccount returns the UID of the PeeringToken of a service account of an invitation, and
// false for other service accounts.
func InvitationOfAccount(account string) (types.UID, bool) {
	uid, ok := strings.CutPrefix(account, invitationPrefix)
	return types.UID(uid), ok && uid != ""
}

// InvitationExpiry returns when an invitation expires. seconds is its lifetime; nil means
// DefaultTokenExpirationSeconds.
func InvitationExpiry(created time.Time, seconds *int64) time.Time {
	lifetime := v1alpha1.DefaultTokenExpirationSeconds
	if seconds != nil {
		lifetime = *seconds
	}
	return created.Add(time.Duration(lifetime) * time.Second)
}
