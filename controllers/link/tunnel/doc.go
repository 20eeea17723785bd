// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tunnel agrees with peers upon tunnels. For each ForeignCluster whose networking is
// Tunnel and that a peering is established with, it describes the local network to the peer in
// a NetworkConfig, takes AddressMappings for the ranges of the peer, answers the peer's
// NetworkConfig with what they are remapped to, and, once both clusters have answered, writes
// the agreement into a TunnelEndpoint, from which the gateway makes the tunnel.
//
// The registry validates what a peer writes. This package decides what of it the local cluster
// accepts: which ranges, how many addresses, and whose key.
package tunnel
