// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication keeps the two copies of what a consumer and a provider
// negotiate about equal. The consumer does it, for both: it writes its
// ResourceRequest and NamespaceMap into its tenant namespace on the provider,
// and mirrors the provider's ResourceOffers. A spec flows from who owns it to
// the copy, the status flows back. NetworkConfigs go both ways, as long as the
// consumer has one: its own is written there, and the provider's mirrored.
package replication
