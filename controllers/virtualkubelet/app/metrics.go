// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"k8s.io/component-base/metrics"

	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/mirror"
	"liqo.io/federation/controllers/virtualkubelet/node"
	"liqo.io/federation/controllers/virtualkubelet/pods"
)

// Metrics are the metrics that the packages of the virtual kubelet define; client-go registers further ones.
type Metrics struct {
	node   *node.Metrics
	pods   *pods.Metrics
	mirror *mirror.Metrics
}

// NewMetrics creates the metrics and registers each of them. It fails if register fails.
func NewMetrics(register func(metrics.Registerable) error) (own *Metrics, err error) {
	own = &Metrics{}
	if own.node, err = node.NewMetrics(register); err != nil {
		return nil, err
	}
	if own.pods, err = pods.NewMetrics(register); err != nil {
		return nil, err
	}
	if own.mirror, err = mirror.NewMetrics(register); err != nil {
		return nil, err
	}
	return own, remote.RegisterMetrics(register)
}
