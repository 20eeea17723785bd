// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent holds what the gateway and the route agent share: the caches of API objects, the translation of
// these objects into the input of package model, the loop that applies the resulting state to the kernel, and the
// server of probes and metrics.
package agent

import "liqo.io/federation/apiserver/apis/federation/v1alpha1"

const (
	// GatewayName is the name of the gateways' Deployment and Lease.
	GatewayName = v1alpha1.GatewayName
	// RouteName is the name of the route agents' DaemonSet.
	RouteName = "federation-route"
)
