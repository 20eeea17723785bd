// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering has the steps of an outgoing peering, which a consumer takes: it obtains
// an identity at its provider with an invitation, renews it, probes the provider, reports
// the negotiation of resources, and removes all of that when the peering is disabled. The
// controller link/foreigncluster takes them.
package peering
