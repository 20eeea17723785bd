// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network agrees with other clusters upon tunnels. For each
// ForeignCluster whose networking is Tunnel and that is peered with, it tells
// the other side of our network by a NetworkConfig, takes AddressMappings for
// the ranges of the other side and tells it what they are called here, and when
// both sides have answered, writes what was agreed into a TunnelEndpoint. The
// rest is the gateway's.
//
// For the pods of this cluster that run on one provider it takes AddressMappings
// by which other providers call them, through this cluster's gateway.
//
// What the other side says was written by a stranger, and is validated where
// it is read.
package network
