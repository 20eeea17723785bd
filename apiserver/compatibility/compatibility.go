// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compatibility compares the versions and features of this cluster's federation API
// with those that a peer reports.
package compatibility

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// What this version of the product can do beyond the first one. A peer that
// does not say that it can is treated as if it could not.
const (
	// FeatureIdentityRenewal is the subresource identity of resource requests.
	FeatureIdentityRenewal = "IdentityRenewal"
	// FeatureTokenIdentity is an identity that is the token of a service
	// account.
	FeatureTokenIdentity = "TokenIdentity"
	// FeatureTunnel is the exchange of NetworkConfigs, for a tunnel.
	FeatureTunnel = "Tunnel"
)

// APIVersions are the versions of the federation API that this version of the
// product speaks, the best first.
func APIVersions() []string { return []string{v1alpha1.SchemeGroupVersion.Version} }

// Features are what this version of the product can do.
func Features() []string {
	return []string{FeatureIdentityRenewal, FeatureTokenIdentity, FeatureTunnel}
}

// CommonVersion is the best version of the federation API that both this
// cluster and a peer speak, and false if there is none. A peer that does not
// say speaks v1alpha1.
func CommonVersion(peers []string) (string, bool) {
	if len(peers) == 0 {
		peers = []string{"v1alpha1"}
	}
	for _, version := range APIVersions() {
		if slices.Contains(peers, version) {
			return version, true
		}
	}
	return "", false
}

// VersionsDiffer tells people what to do about a peer that speaks no version
// that this cluster does. What the peer says has been validated.
func VersionsDiffer(peers []string) string {
	return "The clusters have no version of the federation API in common: this one speaks " + strings.Join(APIVersions(), ", ") +
		", the other one " + strings.Join(peers, ", ") + ". Upgrade the older of the two."
}
