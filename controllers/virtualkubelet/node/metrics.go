// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "k8s.io/component-base/metrics"

// Metrics are the metrics of the virtual node.
type Metrics struct {
	reachable *metrics.Gauge
}

// NewMetrics returns the metrics and registers each with the function.
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
