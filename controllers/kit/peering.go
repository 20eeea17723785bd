// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import "liqo.io/federation/apiserver/apis/federation/v1alpha1"

// OutgoingEnabled reports whether a ForeignCluster requests an outgoing peering and is not being deleted.
func OutgoingEnabled(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp == nil && fc.Spec.Outgoing == v1alpha1.PeeringEnabled
}

// IncomingEnabled reports whether a ForeignCluster requests an incoming peering and is not being deleted.
func IncomingEnabled(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp == nil && fc.Spec.Incoming == v1alpha1.PeeringEnabled
}
