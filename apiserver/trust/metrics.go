// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import "k8s.io/component-base/metrics"

// RefusalReason is the reason of a refusal in the metric of RegisterMetrics.
type RefusalReason string

const (
	// RefusedByLimits means that a pod exceeds the limits for pods of its consumer.
	RefusedByLimits RefusalReason = "Limits"
	// RefusedByOffer means that the consumer has no offer, or its offers do not permit the object: for example, its
	// quota is exceeded, or a storage class or type of external volume is not offered.
	RefusedByOffer RefusalReason = "Offer"
	// RefusedByName means that the consumer must not select the name of a remote namespace.
	RefusedByName RefusalReason = "Name"
	// RefusedByNumber means that the consumer has the maximum number of remote namespaces.
	RefusedByNumber RefusalReason = "Number"
)

var refused = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "federation", Name: "consumer_refusals_total",
	Help: "Objects of consumers that this cluster refuses, by the ForeignCluster of the consumer, resource and reason: " +
		"Limits, Offer, Name or Number. Each refused request is counted for shadowpods and shadowvolumeclaims, and each " +
		"refused name for namespaces.",
	StabilityLevel: metrics.ALPHA,
}, []string{"foreign_cluster", "resource", "reason"})

// RegisterMetrics registers the metric of refused objects of consumers.
func RegisterMetrics(register func(...metrics.Registerable)) { register(refused) }

// CountRefusal counts a refused object of a consumer, which is the name of its ForeignCluster. resource is the plural
// name of the object's resource.
func CountRefusal(consumer, resource string, reason RefusalReason) {
	refused.WithLabelValues(consumer, resource, string(reason)).Inc()
}
