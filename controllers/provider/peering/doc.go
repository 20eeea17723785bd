// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering has the steps of an incoming peering, which a provider takes: it creates
// the tenant namespace of an admitted consumer with the rights of its identities, reports
// the negotiation of resources, and revokes all of that when the peering is disabled or
// withdrawn. The controller link/foreigncluster takes them.
package peering
