// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "k8s.io/component-base/metrics"

// Metrics has the metric of the checks whether the provider is reachable.
type Metrics struct {
	reachable *metrics.Gauge
}

// NewMetrics creates the metrics and registers each of them. It fails if register fails.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		reachable: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "provider_reachable",
			Help:           "1 while the provider's API server is reachable for this virtual kubelet, otherwise 0.",
			StabilityLevel: metrics.ALPHA,
		}),
	}
	return m, register(m.reachable)
}
