// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// normal are the reasons whose events have the type Normal; events with any other reason are
// Warnings.
var normal = []string{
	ReasonDisabled, ReasonDisconnecting, ReasonIdentityPending, ReasonIdentityIssued, ReasonAwaitingConsumer,
	ReasonAwaitingProvider, ReasonAwaitingDecision, ReasonOfferAccepted, ReasonReady, ReasonNamespaceTerminating,
	ReasonVirtualNodeNotReady, ReasonVolumesMoving, ReasonVolumesReleasing, ReasonVolumesReleased,
}

// ownReasons are the reasons for which the condition Ready gets events. Its other reasons are copied from conditions
// that get events themselves.
var ownReasons = []string{ReasonReady, ReasonProviderUnreachable, ReasonVirtualNodeNotReady}

// recordEvents emits an event for every condition whose reason changed, but only one for conditions that have the same
// reason and message. A direction that was never enabled gets none.
func (r *Reconciler) recordEvents(old, current *v1alpha1.ForeignCluster) {
	type cause struct{ reason, message string }
	emitted := map[cause]bool{}
	for _, condition := range current.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady && !slices.Contains(ownReasons, condition.Reason) {
			continue
		}
		before := meta.FindStatusCondition(old.Status.Conditions, condition.Type)
		if before != nil && before.Reason == condition.Reason {
			continue
		}
		if before == nil && condition.Reason == ReasonDisabled {
			continue
		}
		if c := (cause{condition.Reason, condition.Message}); !emitted[c] {
			emitted[c] = true
			r.Events.Event(current, eventType(c.reason), c.reason, c.message)
		}
	}
}

func eventType(reason string) string {
	if slices.Contains(normal, reason) {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
