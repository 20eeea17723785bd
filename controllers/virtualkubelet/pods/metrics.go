// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import "k8s.io/component-base/metrics"

// Metrics are the metrics of the pods that are bound to a virtual node.
type Metrics struct {
	pods           *metrics.Gauge
	offloadSeconds *metrics.Histogram
	readySeconds   *metrics.Histogram
	statusWrites   *metrics.Counter
	tokens         *metrics.Counter
}

// NewMetrics creates the metrics and registers each of them. It fails if register fails.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	latencies := []float64{.005, .01, .02, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 30}
	m := &Metrics{
		pods: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "pods",
			Help:           "Pods that are bound to the virtual node.",
			StabilityLevel: metrics.ALPHA,
		}),
		offloadSeconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "pod_offload_duration_seconds",
			Help:           "Time from the first observation of a bound pod to the creation of its shadow pod.",
			Buckets:        latencies,
			StabilityLevel: metrics.ALPHA,
		}),
		readySeconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "pod_ready_duration_seconds",
			Help:           "Time from the observation of a ready remote pod to the local pod being ready.",
			Buckets:        latencies,
			StabilityLevel: metrics.ALPHA,
		}),
		statusWrites: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "pod_status_writes_total",
			Help:           "Status patches of local pods.",
			StabilityLevel: metrics.ALPHA,
		}),
		tokens: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "federation", Subsystem: "virtual_kubelet", Name: "tokens_total",
			Help:           "Tokens of local service accounts that were delivered to the provider.",
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, r := range []metrics.Registerable{m.pods, m.offloadSeconds, m.readySeconds, m.statusWrites, m.tokens} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Reset sets the number of pods to zero. It must be called before a new informer is started, whose events count all
// pods.
func (m *Metrics) Reset() { m.pods.Set(0) }
