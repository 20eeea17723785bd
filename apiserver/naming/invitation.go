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

// InvitationSecret returns the name of the Secret with the token of an invitation. A consumer stores it in the
// namespace that --invitation-namespace names. foreignCluster is the ForeignCluster of the provider.
func InvitationSecret(foreignCluster string) string { return invitationPrefix + foreignCluster }

// InvitationAccount returns the name of the ServiceAccount whose tokens an invitation contains, which
// is also the name of the IdentityRequest. token is the UID of the PeeringToken.
func InvitationAccount(token types.UID) string { return invitationPrefix + string(token) }

// InvitationOfAccount returns the UID of the PeeringToken for which InvitationAccount returned this
// name of a ServiceAccount, and false for other ServiceAccounts.
func InvitationOfAccount(account string) (types.UID, bool) {
	uid, ok := strings.CutPrefix(account, invitationPrefix)
	return types.UID(uid), ok && uid != ""
}

// InvitationExpiry returns the time at which an invitation expires. created is the creation time of the
// PeeringToken, and seconds its spec.expirationSeconds; nil means DefaultTokenExpirationSeconds.
func InvitationExpiry(created time.Time, seconds *int64) time.Time {
	lifetime := v1alpha1.DefaultTokenExpirationSeconds
	if seconds != nil {
		lifetime = *seconds
	}
	return created.Add(time.Duration(lifetime) * time.Second)
}
