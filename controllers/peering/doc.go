// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering reconciles ForeignClusters in both directions. A consumer requests an
// identity at its provider with an invitation, and negotiates resources; a provider creates
// the tenant namespace of an admitted consumer. Each pass reads the state and does the next
// step that is missing, so that a process may end after any write.
package peering
