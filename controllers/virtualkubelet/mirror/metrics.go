// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import "k8s.io/component-base/metrics"

// Metrics are the metrics of reflected objects, by resource.
type Metrics struct {
	passes, errors, writes *metrics.CounterVec
}

// NewMetrics returns the metrics and registers each with the function.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	counter := func(name, help string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, []string{"resource"})
	}
	m := &Metrics{
		passes: counter("reflections_total", "Passes over local objects and their copies on the provider, by resource."),
		errors: counter("reflection_errors_total",
			"Passes over local objects and their copies that failed and are tried again, by resource."),
		writes: counter("reflection_writes_total",
			"Requests to create, update or delete a copy on the provider, by resource."),
	}
	for _, vector := range []*metrics.CounterVec{m.passes, m.errors, m.writes} {
		if err := register(vector); err != nil {
			return nil, err
		}
		// A series that is zero is more useful than a missing one.
		for _, kind := range builtin() {
			vector.WithLabelValues(kind.name)
		}
	}
	return m, nil
}
