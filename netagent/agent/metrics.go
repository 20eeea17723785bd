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

// NewMetrics creates the metrics and registers each of them. It fails if register returns an error.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		passes: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "passes_total",
			Help: "Comparisons of the node's kernel with the state computed from the API, " +
				"by result: success or error.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		writes: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "kernel_writes_total",
			Help:           "Writes to the node's kernel. A comparison without differences makes none.",
			StabilityLevel: metrics.ALPHA,
		}),
		seconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "federation", Subsystem: "netagent", Name: "pass_duration_seconds",
			Help: "Time to compare the node's kernel with the computed state and to write the differences, " +
				"in seconds.",
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
	// Writes are counted before passes, so that a scrape that counts a pass counts its writes too.
	m.writes.Add(float64(writes))
	m.passes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}
