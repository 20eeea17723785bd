// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering has the steps of an incoming peering, which package link/foreigncluster runs on the
// provider. They create the tenant namespace of an admitted consumer, bind roles to the consumer's
// identities, and report the state of the negotiation of resources. When the peering is disabled, or
// the consumer withdraws its resource request, they revoke the access and delete the namespace.
package peering
