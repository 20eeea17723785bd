// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// sign is what is known of a consumer's signs of life. A consumer writes into
// its Lease whatever time it wants: when that was seen to change here counts.
type sign struct {
	// of is the UID of the consumer's ForeignCluster.
	of types.UID
	// renewed is what the Lease says, nil if no sign ever came, and looked when
	// it was read.
	renewed *metav1.MicroTime
	looked  time.Time
	// since is when the last sign came or, before one came, when somebody began
	// to look. seen tells that one came while somebody looked.
	since time.Time
	seen  bool
}

// next is what is known once the Lease was read again.
func (s *sign) next(of types.UID, renewed *metav1.MicroTime, now time.Time) *sign {
	n := &sign{of: of, renewed: renewed, looked: now, since: now}
	switch {
	case s == nil || s.of != of:
	case !renewed.Equal(s.renewed):
		n.seen = true
	default:
		n.since, n.seen = s.since, s.seen
		if away := now.Sub(s.looked); away > silentAfter {
			// That nobody looked is not the consumer's silence.
			n.since = n.since.Add(away)
		}
	}
	return n
}

// judge says in a condition whether the consumer lives, and since when it does
// not.
func (s *sign) judge(fc *v1alpha1.ForeignCluster, now time.Time, ttl time.Duration) {
	condition := metav1.Condition{Type: v1alpha1.ConditionConsumerAlive, ObservedGeneration: fc.Generation}
	before := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConsumerAlive)
	wasSilent := before != nil && before.Status == metav1.ConditionFalse
	switch {
	case s.renewed == nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, ReasonNoHeartbeat
		condition.Message = "The consumer has given no sign of life yet: it is being connected, or is of a version that gives none. Its orphanTTL does not begin before the first one."
	case now.Sub(s.since) >= silentAfter, wasSilent && !s.seen:
		since := metav1.NewTime(s.since.Truncate(time.Second))
		if wasSilent {
			since = before.LastTransitionTime
		}
		condition.Status, condition.Reason, condition.LastTransitionTime = metav1.ConditionFalse, ReasonConsumerSilent, since
		condition.Message = fmt.Sprintf("The consumer has given no sign of life since %s. %s", since.UTC().Format(time.RFC3339), s.prospect(ttl))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonHeartbeatReceived
		condition.Message = "The consumer gives signs of life."
	}
	meta.SetStatusCondition(&fc.Status.Conditions, condition)
}

// prospect says what becomes of a consumer that stays silent.
func (s *sign) prospect(ttl time.Duration) string {
	if ttl == 0 {
		return "What runs here for it is kept, because it has no orphanTTL."
	}
	return fmt.Sprintf("Unless it gives one, this cluster stops lending to it at %s.", s.since.Add(ttl).UTC().Format(time.RFC3339))
}
