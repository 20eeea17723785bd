// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import "k8s.io/component-base/metrics"

// Metrics are the counters of reconciles and of writes to the provider, by kind.
type Metrics struct {
	passes, errors, writes *metrics.CounterVec
}

// NewMetrics creates the metrics and registers each of them. It fails if register fails.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	counter := func(name, help string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, []string{"resource"})
	}
	m := &Metrics{
		passes: counter("reflections_total", "Reconciles of local objects and their reflected objects, by resource."),
		errors: counter("reflection_errors_total",
			"Reconciles of local objects and their reflected objects that failed and are retried, by resource."),
		writes: counter("reflection_writes_total",
			"Requests to create, update or delete a reflected object on the provider, by resource."),
	}
	for _, vector := range []*metrics.CounterVec{m.passes, m.errors, m.writes} {
		if err := register(vector); err != nil {
			return nil, err
		}
		// Every series exists from the start, so that rates include the first increment.
		for _, kind := range builtin() {
			vector.WithLabelValues(kind.name)
		}
	}
	return m, nil
}
