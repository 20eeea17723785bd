// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import "k8s.io/component-base/metrics"

var refusals = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "federation", Name: "shadow_pod_refusals_total",
	Help: "Requests for shadow pods that are refused because a pod is beyond the limits for pods of its consumer, " +
		"by the ForeignCluster of the consumer.",
	StabilityLevel: metrics.ALPHA,
}, []string{"foreign_cluster"})

// RegisterMetrics registers the metric of refused pods.
func RegisterMetrics(register func(...metrics.Registerable)) { register(refusals) }
