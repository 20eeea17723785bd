// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"k8s.io/component-base/metrics"
)

// Metrics of a virtual kubelet. Requests, by code and method, are counted by
// the clients themselves.
type Metrics struct {
	pods           *metrics.Gauge
	offloadSeconds *metrics.Histogram
	readySeconds   *metrics.Histogram
	statusWrites   *metrics.Counter
	reachable      *metrics.Gauge
	tokens         *metrics.Counter

	reflections, reflectionErrors, reflectionWrites *metrics.CounterVec
}

// NewMetrics makes the metrics and registers each with the function given.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	latencies := []float64{.005, .01, .02, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 30}
	m := &Metrics{
		offloadSeconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "pod_offload_duration_seconds",
			Help:           "Time from a bound pod being seen here to its shadow pod being stored on the provider.",
			Buckets:        latencies,
			StabilityLevel: metrics.ALPHA,
		}),
		readySeconds: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "pod_ready_duration_seconds",
			Help:           "Time from a pod being seen ready on the provider to the local pod being ready.",
			Buckets:        latencies,
			StabilityLevel: metrics.ALPHA,
		}),
		statusWrites: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "pod_status_writes_total",
			Help:           "Status patches of local pods.",
			StabilityLevel: metrics.ALPHA,
		}),
		reachable: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "provider_reachable",
			Help:           "1 while the provider's API answers this virtual kubelet, else 0.",
			StabilityLevel: metrics.ALPHA,
		}),
		tokens: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "tokens_total",
			Help:           "Tokens of local service accounts that were delivered to the provider.",
			StabilityLevel: metrics.ALPHA,
		}),
		reflections: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "reflections_total",
			Help:           "Passes over local objects and their copies on the provider, by resource.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"resource"}),
		reflectionErrors: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "reflection_errors_total",
			Help:           "Passes over local objects and their copies that failed and are tried again, by resource.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"resource"}),
		reflectionWrites: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "reflection_writes_total",
			Help:           "Requests to create, update or delete a copy on the provider, by resource.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"resource"}),
	}
	m.pods = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "liqo", Subsystem: "virtual_kubelet", Name: "pods",
		Help:           "Pods that are bound to the virtual node.",
		StabilityLevel: metrics.ALPHA,
	})
	for _, r := range []metrics.Registerable{m.pods, m.offloadSeconds, m.readySeconds, m.statusWrites, m.reachable, m.tokens,
		m.reflections, m.reflectionErrors, m.reflectionWrites} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	// A series that is zero tells more than one that is not there.
	for _, kind := range reflectedKinds() {
		for _, vector := range []*metrics.CounterVec{m.reflections, m.reflectionErrors, m.reflectionWrites} {
			vector.WithLabelValues(kind.resource())
		}
	}
	return m, nil
}
