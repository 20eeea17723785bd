// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Metrics are the metrics that all agents share.
type Metrics struct {
	passes  *metrics.CounterVec
	writes  *metrics.Counter
	seconds *metrics.Histogram
}

// NewMetrics creates the metrics and registers each of them. It fails if register does.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		passes: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "passes_total",
			Help:           "Comparisons of the node's kernel with the computed state, by result: success or error.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		writes: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "kernel_writes_total",
			Help:           "Writes to the node's kernel. A pass that finds no difference makes none.",
			StabilityLevel: metrics.ALPHA,
		}),
		seconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "pass_duration_seconds",
			Help:           "Duration of a pass in seconds.",
			Buckets:        []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, metric := range []metrics.Registerable{m.passes, m.writes, m.seconds} {
		if err := register(metric); err != nil {
			return nil, err
		}
	}
	for _, result := range []string{"success", "error"} {
		m.passes.WithLabelValues(result)
	}
	return m, nil
}

// ObservePass records a pass: its duration, its kernel writes and its result.
func (m *Metrics) ObservePass(took time.Duration, writes int, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	// The writes come first, so that a scrape that shows the pass also shows its writes.
	m.writes.Add(float64(writes))
	m.passes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
