// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of the controller manager. controller-runtime has further ones, for example
// controller_runtime_reconcile_errors_total.
package metrics

import "k8s.io/component-base/metrics"

const namespace = "federation"

var (
	writes = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      namespace,
		Name:           "patches_total",
		Help:           "Patches sent by reconciles, by kind and part: object or status.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"kind", "part"})
	heartbeatExpired = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      namespace,
		Name:           "consumer_heartbeat_expired",
		Help:           "1 while the heartbeat of a consumer is expired, otherwise 0, by foreign cluster.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"foreign_cluster"})
	orphanedClaims = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      namespace,
		Name:           "orphaned_volume_claims",
		Help:           "PersistentVolumeClaims of a consumer that have no ShadowVolumeClaim, by foreign cluster.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"foreign_cluster"})
)

// Register registers every metric with the function.
func Register(register func(...metrics.Registerable)) {
	register(writes, heartbeatExpired, orphanedClaims)
}

// CountPatch counts one patch of an object of this kind. part is "object" or "status".
func CountPatch(kind, part string) {
	writes.WithLabelValues(kind, part).Inc()
}

// SetHeartbeatExpired sets whether the heartbeat of a consumer is expired.
func SetHeartbeatExpired(foreignCluster string, expired bool) {
	value := 0.0
	if expired {
		value = 1
	}
	heartbeatExpired.WithLabelValues(foreignCluster).Set(value)
}

// ForgetConsumer removes the metric consumer_heartbeat_expired of a cluster that is no longer a consumer.
func ForgetConsumer(foreignCluster string) {
	heartbeatExpired.Delete(map[string]string{"foreign_cluster": foreignCluster})
}

// SetOrphanedClaims sets the number of claims of a consumer that have no
// ShadowVolumeClaim. Zero removes the metric of that consumer.
func SetOrphanedClaims(foreignCluster string, count int) {
	if count == 0 {
		orphanedClaims.Delete(map[string]string{"foreign_cluster": foreignCluster})
		return
	}
	orphanedClaims.WithLabelValues(foreignCluster).Set(float64(count))
}
