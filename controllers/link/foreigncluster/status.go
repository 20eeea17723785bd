// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/controllers/kit"
)

func setCondition(
	fc *v1alpha1.ForeignCluster, kind string, status metav1.ConditionStatus, reason, message string,
) {
	meta.SetStatusCondition(&fc.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: fc.Generation,
	})
}

// summarize sets the fields of the status that depend on the results of all steps: the state of the
// identities of both directions, the state of the network, the policies in force, and the condition Ready.
func summarize(p *Pass) {
	fc := p.ForeignCluster
	summarizeIdentities(fc, p.Identity, p.Tenant)
	for _, a := range aspects {
		if *a.phase(&fc.Status) == "" {
			a.Set(fc, v1alpha1.PeeringNone, ReasonDisabled, "The peering is disabled.")
		}
	}
	fc.Status.Networking = networking(p)
	if fc.Spec.Trust == "" {
		setCondition(fc, v1alpha1.ConditionTrustSelected, metav1.ConditionFalse, ReasonTrustNotSelected,
			"spec.trust is empty, because version v0.1.0 created the ForeignCluster, so that the peer may do what SameOwner "+
				"permits. Set spec.trust to Tenant or SameOwner.")
	} else {
		meta.RemoveStatusCondition(&fc.Status.Conditions, v1alpha1.ConditionTrustSelected)
	}
	fc.Status.Policies = trust.Policies(fc, &p.Installation)
	fc.Status.ObservedGeneration = fc.Generation
	status, reason, message := ready(p)
	setCondition(fc, v1alpha1.ConditionReady, status, reason, message)
}

// ready returns the condition Ready: False with the reason and message of the first enabled
// direction that is not established, of volumes that delay the teardown, or of p.Unready; True
// otherwise. It is False, too, if no direction is enabled.
func ready(p *Pass) (status metav1.ConditionStatus, reason, message string) {
	fc := p.ForeignCluster
	for _, direction := range []struct {
		enabled bool
		aspect  Aspect
	}{{kit.OutgoingEnabled(fc), Outgoing}, {kit.IncomingEnabled(fc), Incoming}} {
		if direction.enabled && *direction.aspect.phase(&fc.Status) != v1alpha1.PeeringEstablished {
			condition := meta.FindStatusCondition(fc.Status.Conditions, string(direction.aspect))
			return metav1.ConditionFalse, condition.Reason, condition.Message
		}
	}
	released := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
	switch {
	case released != nil && released.Status == metav1.ConditionFalse && fc.Status.OutgoingPeering != v1alpha1.PeeringNone:
		return metav1.ConditionFalse, released.Reason, released.Message
	case !kit.OutgoingEnabled(fc) && !kit.IncomingEnabled(fc):
		return metav1.ConditionFalse, ReasonDisabled, "No direction of the peering is enabled."
	case p.Unready != nil:
		return metav1.ConditionFalse, p.Unready.Reason, p.Unready.Message
	default:
		return metav1.ConditionTrue, ReasonReady, "Every enabled direction of the peering is established."
	}
}

// networking returns the state of the connection between the pods of both clusters. A flat network is
// established while a direction is enabled, and until the outgoing peering has ended, because pods that are
// evicted remain endpoints of their Services until they are replaced. For a tunnel, the state is the one in the
// status, which the controller in package link/tunnel writes.
func networking(p *Pass) v1alpha1.PeeringPhase {
	fc := p.ForeignCluster
	switch cmp.Or(fc.Spec.Networking, p.Networking) {
	case v1alpha1.NetworkingTunnel:
		return cmp.Or(fc.Status.Networking, v1alpha1.PeeringNone)
	case v1alpha1.NetworkingFlat:
		if kit.OutgoingEnabled(fc) || kit.IncomingEnabled(fc) ||
			fc.Status.OutgoingPeering == v1alpha1.PeeringDisconnecting {
			return v1alpha1.PeeringEstablished
		}
	}
	return v1alpha1.PeeringNone
}

// summarizeIdentities sets the aspect Authentication to the first verdict that is not Established,
// or to an established one if all are. A verdict is nil if its direction is disabled.
func summarizeIdentities(fc *v1alpha1.ForeignCluster, verdicts ...*Verdict) {
	var worst *Verdict
	for _, v := range verdicts {
		if v != nil && (worst == nil || worst.Phase == v1alpha1.PeeringEstablished) {
			worst = v
		}
	}
	if worst == nil {
		Authentication.Set(fc, v1alpha1.PeeringNone, ReasonDisabled, "The peering is disabled.")
		return
	}
	Authentication.Set(fc, worst.Phase, worst.Reason, "%s", worst.Message)
}

// AnswerOf returns the message of the condition Accepted of a resource request or offer; if the condition is
// missing, a sentence that states that there is no reason.
func AnswerOf(conditions []metav1.Condition) string {
	if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted); condition != nil {
		return condition.Message
	}
	return "No reason was given."
}
