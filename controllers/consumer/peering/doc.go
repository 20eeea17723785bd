// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering has the steps of an outgoing peering, which package link/foreigncluster runs on the
// consumer. They obtain an identity at the provider with an invitation, renew the identity, probe the
// provider, and report the state of the negotiation of resources. When the peering is disabled, they
// delete everything that was created for it.
package peering
