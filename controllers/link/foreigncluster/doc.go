// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreigncluster reconciles ForeignClusters: each reconcile runs the steps of both
// directions of a peering, and writes their results to the status. This package defines the
// interface of the steps and functions for both directions. The steps themselves are in the packages
// consumer/peering (outgoing) and provider/peering (incoming). Each step reads the current state of
// the cluster, so that the process may end after any write.
package foreigncluster
