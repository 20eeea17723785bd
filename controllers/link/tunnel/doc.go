// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tunnel negotiates tunnels with peers. For each ForeignCluster whose networking is Tunnel and
// whose peering is established, it describes the local network to the peer in a NetworkConfig,
// allocates a range for each range of the peer by an AddressMapping, and answers the peer's
// NetworkConfig with the allocated ranges. Once both clusters have answered, it writes the result to a
// TunnelEndpoint, from which the gateway creates the tunnel.
//
// The API server validates the NetworkConfigs that peers write. This package decides which of their
// ranges, how many addresses, and which public keys the local cluster accepts.
package tunnel
