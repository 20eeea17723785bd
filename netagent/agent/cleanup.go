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

// An agent exits after its cleanup, so nothing repairs a failed one later: transient errors (for example EINTR)
// are retried here.
const (
	cleanAttempts = 5
	cleanPause    = 200 * time.Millisecond
)

// CleanRoute removes everything that a route agent created on a node. It returns the number of writes to the
// kernel, and fails if an object could not be removed.
func CleanRoute(node kernel.Kernel) (writes int, err error) {
	return retryClean(func() (int, error) {
		return apply.New(node).Teardown(model.Scope{Links: []string{model.OverlayLink}, Routing: true, Families: families})
	})
}

// CleanGateway removes everything that a gateway created on its node and in its network namespace (inside). It
// returns the number of writes to the kernel, and fails if an object could not be removed.
func CleanGateway(node, inside kernel.Kernel) (writes int, err error) {
	return retryClean(func() (int, error) {
		insideWrites, insideErr := apply.New(inside).
			Teardown(model.Scope{Links: []string{model.GatewayLink, model.TunnelLink}, Routing: true, Families: families})
		nodeWrites, nodeErr := apply.New(node).Teardown(model.Scope{Links: []string{model.HostLink}})
		return insideWrites + nodeWrites, errors.Join(insideErr, nodeErr)
	})
}

// retryClean calls clean until it succeeds, cleanAttempts times at most, and returns the last error.
func retryClean(clean func() (int, error)) (writes int, err error) {
	for attempt := range cleanAttempts {
		if attempt > 0 {
			time.Sleep(cleanPause)
		}
		var n int
		n, err = clean()
		writes += n
		if err == nil {
			break
		}
	}
	return writes, err
}
