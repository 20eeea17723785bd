// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// accountPrefix is the prefix of the user name of a ServiceAccount. Its namespace, a colon and its name
// follow.
const accountPrefix = "system:serviceaccount:"

// IsPeer reports whether a user is a peer: it has the group of peers, from its certificate, or is a
// ServiceAccount in a tenant namespace.
func IsPeer(name string, groups []string) bool {
	account, isAccount := strings.CutPrefix(name, accountPrefix)
	return slices.Contains(groups, v1alpha1.PeerGroup) || isAccount && naming.IsTenantNamespace(account)
}
