// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

var families = []model.Family{model.IPv4, model.IPv6}

// CleanRoute removes what a route agent has made on a node.
func CleanRoute(node kernel.Kernel) (writes int, err error) {
	return apply.New(node).Teardown(model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families})
}

// CleanGateway removes what a gateway has made, on its node and within its
// namespace.
func CleanGateway(node, inside kernel.Kernel) (writes int, err error) {
	within, insideErr := apply.New(inside).Teardown(model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families})
	onNode, nodeErr := apply.New(node).Teardown(model.Scope{Links: []string{model.HostLink}})
	return within + onNode, errors.Join(insideErr, nodeErr)
}
