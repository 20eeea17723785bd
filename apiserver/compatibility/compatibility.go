// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compatibility compares the API versions and features that the local cluster supports with
// those that a peer reports.
package compatibility

import (
	"slices"
	"strings"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Version is the version of the programs, and the appVersion of the chart.
const Version = "v0.1.0"

// Names of optional features, which were added after the first version. A peer supports only the
// features that it reports.
const (
	// FeatureIdentityRenewal is the renewal of an identity with the subresource identity of a
	// ResourceRequest.
	FeatureIdentityRenewal = "IdentityRenewal"
	// FeatureTokenIdentity is an identity that consists of tokens of a ServiceAccount.
	FeatureTokenIdentity = "TokenIdentity"
	// FeatureTunnel is the exchange of NetworkConfigs for a tunnel.
	FeatureTunnel = "Tunnel"
)

// APIVersions returns the versions of the federation API that the local cluster supports, in order of
// preference.
func APIVersions() []string { return []string{v1alpha1.SchemeGroupVersion.Version} }

// Features returns the optional features that the local cluster supports.
func Features() []string {
	return []string{FeatureIdentityRenewal, FeatureTokenIdentity, FeatureTunnel}
}

// CommonVersion returns the version of the federation API that the local cluster prefers among those
// that the peer also supports, and false if they have no version in common. A peer that reports no
// versions supports v1alpha1.
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

// VersionsDiffer returns the message of a condition for a peer without a common version. peers are the versions that
// the peer reports. They become part of the message, so the caller must have validated them.
func VersionsDiffer(peers []string) string {
	return "The clusters have no common version of the federation API: this cluster supports " +
		strings.Join(APIVersions(), ", ") + ", the peer supports " + strings.Join(peers, ", ") +
		". Upgrade the older cluster."
}
