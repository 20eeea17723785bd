// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control forwards control plane connections through the tunnels of a gateway: consumers connect to the
// local API server, and local controllers connect to the API servers of providers. Clients cannot select other
// destinations. The content is not inspected: TLS is between the client and the API server.
package control
