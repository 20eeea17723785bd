// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package placementreview

import (
	"time"

	"k8s.io/component-base/metrics"
)

// outcome is the outcome of a review, and the value of the metric's label outcome.
type outcome string

const (
	// unchanged means that the pod is admitted without a patch.
	unchanged outcome = "unchanged"
	// placed means that the pod gets node affinity or tolerations.
	placed outcome = "placed"
	// gated means that the pod gets a scheduling gate until a move of its volume ends.
	gated outcome = "gated"
	// denied means that the pod is refused.
	denied outcome = "denied"
	// failed means that the review fails with an error instead of a response.
	failed outcome = "failed"
)

const (
	namespace = "federation"
	subsystem = "placement_review"
)

var (
	reviews = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: "placement_reviews_total",
		Help:           "Placement reviews of pods with claims, by outcome: unchanged, placed, gated, denied or failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	duration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "duration_seconds",
		Help:           "Duration of a placement review, including its reads of claims, volumes and storage classes.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 13),
		StabilityLevel: metrics.ALPHA,
	})
)

// RegisterMetrics registers the metrics of placement reviews.
func RegisterMetrics(register func(...metrics.Registerable)) { register(reviews, duration) }

func observe(outcome outcome, elapsed time.Duration) {
	reviews.WithLabelValues(string(outcome)).Inc()
	duration.Observe(elapsed.Seconds())
}
