// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// accountPrefix is the prefix of user names of service accounts, followed by namespace, colon and name.
const accountPrefix = "system:serviceaccount:"

// IsPeer reports whether a user is a peer: by the group of its certificate, or by a service account of
// its tenant namespace.
func IsPeer(name string, groups []string) bool {
	account, isAccount := strings.CutPrefix(name, accountPrefix)
	return slices.Contains(groups, v1alpha1.PeerGroup) || isAccount && naming.IsTenantNamespace(account)
}
