// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreigncluster reconciles ForeignClusters: each pass takes the steps of both
// directions of a peering, and summarizes them in the status. It has the contract of these
// steps, and what both directions share; the steps themselves are in the packages
// consumer/peering (outgoing) and provider/peering (incoming). Each pass reads the state
// and takes the next step that is missing, so that a process may end after any write.
package foreigncluster
