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

// Features that later versions have added. A peer that does not report a feature does not
// support it.
const (
	// FeatureIdentityRenewal is the subresource identity of resource requests.
	FeatureIdentityRenewal = "IdentityRenewal"
	// FeatureTokenIdentity is the identity by tokens of a service account.
	FeatureTokenIdentity = "TokenIdentity"
	// FeatureTunnel is the exchange of NetworkConfigs for a tunnel.
	FeatureTunnel = "Tunnel"
)

// APIVersions returns the supported versions of the federation API, the preferred one first.
func APIVersions() []string { return []string{v1alpha1.SchemeGroupVersion.Version} }

// Features returns the supported features.
func Features() []string {
	return []string{FeatureIdentityRenewal, FeatureTokenIdentity, FeatureTunnel}
}

// CommonVersion returns the preferred version of the federation API that both this cluster and a peer
// support, and false if there is none. A peer that reports no versions supports v1alpha1.
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

// VersionsDiffer returns the message for a peer without a common version. The versions of the peer
// have been validated.
func VersionsDiffer(peers []string) string {
	return "The clusters have no common version of the federation API: this cluster supports " +
		strings.Join(APIVersions(), ", ") + ", the peer supports " + strings.Join(peers, ", ") + ". Upgrade the older one."
}
