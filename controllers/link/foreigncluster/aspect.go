// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Aspect is a part of the state of a peering for which the status of a ForeignCluster has a phase
// and a condition. Its value is the type of the condition.
type Aspect string

const (
	// Outgoing is the peering in which this cluster is the consumer.
	Outgoing Aspect = v1alpha1.ConditionOutgoingPeering
	// Incoming is the peering in which this cluster is the provider.
	Incoming Aspect = v1alpha1.ConditionIncomingPeering
	// Authentication is the state of the identities of both directions.
	Authentication Aspect = v1alpha1.ConditionAuthenticated
)

// aspects are all aspects; summarize ensures that each has a phase and a condition.
var aspects = []Aspect{Outgoing, Incoming, Authentication}

// phase returns a pointer to the phase of the aspect in the status.
func (a Aspect) phase(status *v1alpha1.ForeignClusterStatus) *v1alpha1.PeeringPhase {
	switch a {
	case Outgoing:
		return &status.OutgoingPeering
	case Incoming:
		return &status.IncomingPeering
	default:
		return &status.Authentication
	}
}

// Set sets the phase and the condition of the aspect. The condition is True if the phase is
// Established, otherwise False.
func (a Aspect) Set(fc *v1alpha1.ForeignCluster, phase v1alpha1.PeeringPhase, reason, format string, args ...any) {
	*a.phase(&fc.Status) = phase
	status := metav1.ConditionFalse
	if phase == v1alpha1.PeeringEstablished {
		status = metav1.ConditionTrue
	}
	setCondition(fc, string(a), status, reason, fmt.Sprintf(format, args...))
}

// Disconnect sets the phase Disconnecting, and now as the time when the disconnection began, which
// is the lastTransitionTime of the condition. Later calls change neither.
func (a Aspect) Disconnect(fc *v1alpha1.ForeignCluster, now time.Time) {
	if a.Disconnecting(fc) {
		return
	}
	*a.phase(&fc.Status) = v1alpha1.PeeringDisconnecting
	meta.RemoveStatusCondition(&fc.Status.Conditions, string(a))
	meta.SetStatusCondition(&fc.Status.Conditions, metav1.Condition{
		Type:               string(a),
		Status:             metav1.ConditionFalse,
		Reason:             ReasonDisconnecting,
		Message:            "The peering is being torn down.",
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		ObservedGeneration: fc.Generation,
	})
}

// Disconnecting reports whether the aspect has the phase Disconnecting in the status.
func (a Aspect) Disconnecting(fc *v1alpha1.ForeignCluster) bool {
	_, ok := a.disconnectingSince(fc)
	return ok
}

func (a Aspect) disconnectingSince(fc *v1alpha1.ForeignCluster) (time.Time, bool) {
	condition := meta.FindStatusCondition(fc.Status.Conditions, string(a))
	if condition == nil || *a.phase(&fc.Status) != v1alpha1.PeeringDisconnecting {
		return time.Time{}, false
	}
	return condition.LastTransitionTime.Time, true
}

// TimeLeft returns how long the disconnection may still wait for the other cluster. It counts from
// the start of the disconnection or, if that is earlier, from the deletion of the ForeignCluster;
// only from the start if volumes on the provider delayed the disconnection.
func (a Aspect) TimeLeft(p *Pass) time.Duration {
	fc := p.ForeignCluster
	since := p.Now
	if began, ok := a.disconnectingSince(fc); ok {
		since = began
	}
	held := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased) != nil
	if deleted := fc.DeletionTimestamp; deleted != nil && deleted.Time.Before(since) && !held {
		since = deleted.Time
	}
	return since.Add(DisconnectTimeout(fc)).Sub(p.Now)
}

// DisconnectTimeout returns how long a disconnection waits for the other cluster:
// spec.disconnectTimeoutSeconds, or its default.
func DisconnectTimeout(fc *v1alpha1.ForeignCluster) time.Duration {
	seconds := v1alpha1.DefaultDisconnectTimeoutSeconds
	if fc.Spec.DisconnectTimeoutSeconds != nil {
		seconds = *fc.Spec.DisconnectTimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}
