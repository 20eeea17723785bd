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

// heartbeat is the last observed renewal of a consumer's Lease. The time in the Lease is not trusted, because
// the consumer writes it: only the time counts when this process observed a change.
type heartbeat struct {
	// of is the UID of the consumer's ForeignCluster. A heartbeat of a deleted ForeignCluster of the
	// same name does not count.
	of types.UID
	// renewed is the renewTime of the Lease when it was last read; nil before the first renewal.
	// readAt is the time of that read, by the clock of this process.
	renewed *metav1.MicroTime
	readAt  time.Time
	// since is the time when this process observed the last change of renewTime or, before a change,
	// when it first read the Lease. observed is true once it observed a change.
	since    time.Time
	observed bool
}

// next returns the heartbeat after another read of the Lease at time now. h is the heartbeat after the
// previous read; nil if there was none.
func (h *heartbeat) next(of types.UID, renewed *metav1.MicroTime, now time.Time) *heartbeat {
	n := &heartbeat{of: of, renewed: renewed, readAt: now, since: now}
	switch {
	case h == nil || h.of != of:
	case !renewed.Equal(h.renewed):
		n.observed = true
	default:
		n.since, n.observed = h.since, h.observed
		if unread := now.Sub(h.readAt); unread > heartbeatLifetime {
			// The time in which this process could not read the Lease does not count.
			n.since = n.since.Add(unread)
		}
	}
	return n
}

// report sets the condition ConsumerAlive. If it becomes False, its lastTransitionTime is the time of
// the last heartbeat. A condition that is False stays so until this process observes a heartbeat.
func (h *heartbeat) report(fc *v1alpha1.ForeignCluster, now time.Time, ttl time.Duration) {
	condition := metav1.Condition{Type: v1alpha1.ConditionConsumerAlive, ObservedGeneration: fc.Generation}
	before := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	wasExpired := before != nil && before.Status == metav1.ConditionFalse
	switch {
	case h.renewed == nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, ReasonNoHeartbeat
		condition.Message = "The consumer has sent no heartbeat yet: it is still connecting, or its version does not " +
			"send heartbeats. Its orphanTTL starts with the first heartbeat."
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

// prospect returns the sentence for the condition that states when this cluster ends the peering unless
// the consumer sends a heartbeat. A ttl of zero means never.
func (h *heartbeat) prospect(ttl time.Duration) string {
	if ttl == 0 {
		return "Its pods and objects in this cluster are kept, because it has no orphanTTL."
	}
	return fmt.Sprintf("Unless the consumer sends a heartbeat, this cluster ends the incoming peering at %s.",
		h.since.Add(ttl).UTC().Format(time.RFC3339))
}
