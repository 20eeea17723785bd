// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
)

// accountPrefix stands before the names of service accounts as users, followed
// by namespace, colon and name.
const accountPrefix = "system:serviceaccount:"

// IsPeer reports whether a user of that name and those groups is another cluster,
// known by a certificate or by an account of its tenant namespace.
func IsPeer(name string, groups []string) bool {
	account, isAccount := strings.CutPrefix(name, accountPrefix)
	return slices.Contains(groups, v1alpha1.PeerGroup) || isAccount && naming.IsTenantNamespace(account)
}
