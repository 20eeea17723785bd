// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate translates objects between the consumer and the provider: local pods to shadow pods, statuses of
// remote pods to statuses of local pods, VirtualNodes to Nodes, and local objects to reflected objects. Its functions
// send no requests and keep no state.
package translate
