// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is what the gateway and the route agents have in common: the
// objects of the API that they read, what package model makes of them, and the
// loop that applies it again and again.
package agent

const (
	// GatewayName is what the gateway is called: its Deployment, the label
	// app.kubernetes.io/name of its pods, and the Lease of the active one.
	GatewayName = "liqo-gateway"
	// RouteName is what the DaemonSet of the route agents is called.
	RouteName = "liqo-route"
)
