// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The interface of the gateway's proxy for in-band control plane traffic.
const (
	// ControlDomain is the domain of the host names that clients request from the proxy, <cluster
	// ID>.control.liqo. DNS does not resolve it.
	ControlDomain = "control.liqo"
	// ControlAudience is the audience of the tokens that the proxy accepts.
	ControlAudience = "federation-control"
	// ControlPath is the non-resource path that the bearer of a token must be permitted to get.
	ControlPath = "/liqo/control"
)
