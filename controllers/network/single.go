// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import "liqo.io/federation/apiserver/apis/federation/v1alpha1"

// ReasonNoExternalAddresses is the reason of the event when this cluster has no external CIDR.
const ReasonNoExternalAddresses = "NoExternalAddresses"

// isSingle reports whether a mapping is one of package addresses, and not of a range of a peer.
func isSingle(mapping *v1alpha1.AddressMapping) bool {
	return isOurs(mapping) && mapping.Labels[v1alpha1.LabelOrigin] != ""
}
