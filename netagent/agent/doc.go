// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is what the gateway and the route agents have in common: the
// objects of the API that they read, what package model makes of them, and the
// loop that applies it again and again.
package agent

import "liqo.io/federation/apiserver/apis/federation/v1alpha1"

const (
	// GatewayName is what the gateway is called.
	GatewayName = v1alpha1.GatewayName
	// RouteName is what the DaemonSet of the route agents is called.
	RouteName = "liqo-route"
)
