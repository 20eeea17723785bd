// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Names that clients of the gateway's proxy use in mode InBand. The proxy forwards requests to the
// API server of the peer through the tunnel.
const (
	// ControlDomain is the domain of the host names <cluster ID>.control.liqo, by which clients
	// select the API server of a peer at the proxy. DNS does not resolve them.
	ControlDomain = "control.liqo"
	// ControlAudience is the audience of the tokens that the proxy accepts.
	ControlAudience = "federation-control"
	// ControlPath is a non-resource URL: the proxy accepts a token if RBAC permits its bearer the
	// verb get on this path.
	ControlPath = "/liqo/control"
)
