// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
)

// reach returns which local pods a peer reaches: spec.reach of its ForeignCluster, otherwise installation, the value
// of --network-reach, and if that is empty, the default of the peer's trust.
func reach(fc *v1alpha1.ForeignCluster, installation v1alpha1.ReachMode) v1alpha1.ReachMode {
	return cmp.Or(fc.Spec.Reach, installation, reachByTrust(fc))
}

// reachByTrust returns Offloaded for a peer with trust Tenant, and All for one with SameOwner.
func reachByTrust(fc *v1alpha1.ForeignCluster) v1alpha1.ReachMode {
	if trust.Of(fc) == v1alpha1.TrustTenant {
		return v1alpha1.ReachOffloaded
	}
	return v1alpha1.ReachAll
}
