// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"liqo.io/federation/netagent/apply"
	"liqo.io/federation/netagent/kernel"
	"liqo.io/federation/netagent/model"
)

var families = []model.Family{model.IPv4, model.IPv6}

// Nobody comes after an agent that removes everything: what fails, as when the
// kernel was interrupted, is tried so often.
const (
	cleanTries = 5
	cleanPause = 200 * time.Millisecond
)

// CleanRoute removes what a route agent has made on a node.
func CleanRoute(node kernel.Kernel) (writes int, err error) {
	return again(func() (int, error) {
		return apply.New(node).Teardown(model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families})
	})
}

// CleanGateway removes what a gateway has made, on its node and within its
// namespace.
func CleanGateway(node, inside kernel.Kernel) (writes int, err error) {
	return again(func() (int, error) {
		within, insideErr := apply.New(inside).Teardown(model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families})
		onNode, nodeErr := apply.New(node).Teardown(model.Scope{Links: []string{model.HostLink}})
		return within + onNode, errors.Join(insideErr, nodeErr)
	})
}

// again cleans until that succeeds, a few times, and returns the last error.
func again(clean func() (int, error)) (writes int, err error) {
	for try := range cleanTries {
		if try > 0 {
			time.Sleep(cleanPause)
		}
		var wrote int
		wrote, err = clean()
		writes += wrote
		if err == nil {
			break
		}
	}
	return writes, err
}
