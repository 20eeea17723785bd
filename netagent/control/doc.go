// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control carries the control plane through the tunnels of a gateway:
// a peer that is lent to reaches the API server of this cluster by it, and the
// controllers of this cluster reach those of the clusters that lend. Nobody
// chooses where a connection goes, and what is said on it is not looked at: TLS
// is between the one who calls and the API server.
package control
