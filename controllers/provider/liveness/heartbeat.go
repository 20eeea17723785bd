// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// heartbeat is the last observed renewal of a consumer's Lease. The consumer controls the time in
// the Lease, so that only the time counts at which a change was observed.
type heartbeat struct {
	// of is the UID of the consumer's ForeignCluster.
	of types.UID
	// renewed is the time in the Lease, nil before the first renewal, and readAt when the
	// Lease was read.
	renewed *metav1.MicroTime
	readAt  time.Time
	// since is when the last renewal was observed or, before that, when the observation
	// began. observed is whether this process observed one.
	since    time.Time
	observed bool
}

// next returns the heartbeat after the Lease was read again.
func (h *heartbeat) next(of types.UID, renewed *metav1.MicroTime, now time.Time) *heartbeat {
	n := &heartbeat{of: of, renewed: renewed, readAt: now, since: now}
	switch {
	case h == nil || h.of != of:
	case !renewed.Equal(h.renewed):
		n.observed = true
	default:
		n.since, n.observed = h.since, h.observed
		if unread := now.Sub(h.readAt); unread > heartbeatLifetime {
			// Time in which the Lease could not be read does not count.
			n.since = n.since.Add(unread)
		}
	}
	return n
}

// report sets the condition ConsumerAlive. Its transition to False is the time of the last heartbeat.
func (h *heartbeat) report(fc *v1alpha1.ForeignCluster, now time.Time, ttl time.Duration) {
	condition := metav1.Condition{Type: v1alpha1.ConditionConsumerAlive, ObservedGeneration: fc.Generation}
	before := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	wasExpired := before != nil && before.Status == metav1.ConditionFalse
	switch {
	case h.renewed == nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, ReasonNoHeartbeat
		condition.Message = "The consumer has sent no heartbeat yet: it is being connected, or its version sends " +
			"none. Its orphanTTL does not begin before the first heartbeat."
	case now.Sub(h.since) >= heartbeatLifetime, wasExpired && !h.observed:
		since := metav1.NewTime(h.since.Truncate(time.Second))
		if wasExpired {
			since = before.LastTransitionTime
		}
		condition.Status, condition.Reason, condition.LastTransitionTime =
			metav1.ConditionFalse, ReasonHeartbeatExpired, since
		condition.Message = fmt.Sprintf("The consumer has sent no heartbeat since %s. %s",
			since.UTC().Format(time.RFC3339), h.prospect(ttl))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonHeartbeatReceived
		condition.Message = "The consumer sends heartbeats."
	}
	meta.SetStatusCondition(&fc.Status.Conditions, condition)
}

// prospect returns a sentence about what happens without another heartbeat.
func (h *heartbeat) prospect(ttl time.Duration) string {
	if ttl == 0 {
		return "Its pods and objects are kept, because it has no orphanTTL."
	}
	return fmt.Sprintf("Unless it sends one, this cluster ends the incoming peering at %s.",
		h.since.Add(ttl).UTC().Format(time.RFC3339))
}
