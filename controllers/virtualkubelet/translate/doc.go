// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate translates between the objects of the consumer and those of the provider:
// local pods into shadow pods, statuses of remote pods into statuses of local ones, VirtualNodes
// into Nodes, and local objects into reflected ones. All of it is pure functions of values.
package translate
