// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Metrics are those that every agent has.
type Metrics struct {
	passes  *metrics.CounterVec
	writes  *metrics.Counter
	seconds *metrics.Histogram
}

// NewMetrics makes the metrics and registers each with the function given.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		passes: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "netagent", Name: "passes_total",
			Help:           "Comparisons of what the node's kernel holds with what it is to hold, by result: success or error.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		writes: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "netagent", Name: "kernel_writes_total",
			Help:           "Writes to the node's kernel. A pass that finds nothing to change makes none.",
			StabilityLevel: metrics.ALPHA,
		}),
		seconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "liqo", Subsystem: "netagent", Name: "pass_duration_seconds",
			Help:           "Time that a pass takes.",
			Buckets:        []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, one := range []metrics.Registerable{m.passes, m.writes, m.seconds} {
		if err := register(one); err != nil {
			return nil, err
		}
	}
	for _, result := range []string{"success", "error"} {
		m.passes.WithLabelValues(result)
	}
	return m, nil
}

// Passed counts a pass.
func (m *Metrics) Passed(took time.Duration, writes int, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	// Who has seen that a pass is over has seen what it wrote.
	m.writes.Add(float64(writes))
	m.passes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
