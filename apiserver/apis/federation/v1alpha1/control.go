// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// What the gateway's proxy and those who ask it have to agree upon.
const (
	// ControlDomain is what the names of clusters are in, <cluster id>.control.liqo,
	// that the proxy of the gateway is asked for. No resolver knows it.
	ControlDomain = "control.liqo"
	// ControlAudience is whom a token is for that is shown to the proxy.
	ControlAudience = "federation-control"
	// ControlPath is the non-resource path that the bearer must be allowed to get.
	ControlPath = "/liqo/control"
)
