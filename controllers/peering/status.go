// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
)

// Reasons of the conditions of a ForeignCluster, and of the events on it.
const (
	ReasonDisabled             = "Disabled"
	ReasonDisconnecting        = "Disconnecting"
	ReasonDisconnectTimedOut   = "DisconnectTimedOut"
	ReasonNamespaceTaken       = "NamespaceTaken"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonInvitationMissing    = "InvitationMissing"
	ReasonInvitationInvalid    = "InvitationInvalid"
	ReasonInvitationExpired    = "InvitationExpired"
	ReasonInvitationRejected   = "InvitationRejected"
	ReasonIdentityRefused      = "IdentityRefused"
	ReasonIdentityPending      = "IdentityPending"
	ReasonIdentityInvalid      = "IdentityInvalid"
	ReasonNoControlProxy       = "NoControlProxy"
	ReasonIdentityExpired      = "IdentityExpired"
	ReasonIdentityIssued       = "IdentityIssued"
	ReasonIdentityRevoked      = identity.ReasonIdentityRevoked
	ReasonAwaitingDecision     = "AwaitingDecision"
	ReasonOfferRefused         = "OfferRefused"
	ReasonRenewalFailing       = "RenewalFailing"
	ReasonVersionsDiffer       = "VersionsDiffer"
	ReasonClusterIDMismatch    = "ClusterIDMismatch"
	ReasonOwnCluster           = "OwnCluster"
	ReasonProviderUnreachable  = "ProviderUnreachable"
	ReasonProviderFailing      = "ProviderFailing"
	ReasonAwaitingConsumer     = "AwaitingConsumer"
	ReasonAwaitingProvider     = "AwaitingProvider"
	ReasonRequestRefused       = "RequestRefused"
	ReasonOfferWithdrawn       = "OfferWithdrawn"
	ReasonOfferAccepted        = "OfferAccepted"
	ReasonVirtualNodeNotReady  = "VirtualNodeNotReady"
	ReasonReady                = "Ready"
	ReasonVolumesRemain        = "VolumesRemain"
	ReasonVolumesMoving        = "VolumesMoving"
	ReasonVolumesReleasing     = "VolumesReleasing"
	ReasonVolumesReleased      = "VolumesReleased"
	ReasonVolumesLeftBehind    = "VolumesLeftBehind"
)

// aspect is one of the things that a ForeignCluster has a phase of.
type aspect struct {
	condition string
	phase     func(*v1alpha1.ForeignClusterStatus) *v1alpha1.PeeringPhase
}

var (
	outgoingAspect = aspect{v1alpha1.ConditionOutgoingPeering, func(s *v1alpha1.ForeignClusterStatus) *v1alpha1.PeeringPhase { return &s.OutgoingPeering }}
	incomingAspect = aspect{v1alpha1.ConditionIncomingPeering, func(s *v1alpha1.ForeignClusterStatus) *v1alpha1.PeeringPhase { return &s.IncomingPeering }}
	authAspect     = aspect{v1alpha1.ConditionAuthenticated, func(s *v1alpha1.ForeignClusterStatus) *v1alpha1.PeeringPhase { return &s.Authentication }}
	aspects        = []aspect{outgoingAspect, incomingAspect, authAspect}
)

// set says how an aspect stands and why.
func (a aspect) set(fc *v1alpha1.ForeignCluster, phase v1alpha1.PeeringPhase, reason, format string, args ...any) {
	*a.phase(&fc.Status) = phase
	status := metav1.ConditionFalse
	if phase == v1alpha1.PeeringEstablished {
		status = metav1.ConditionTrue
	}
	setCondition(fc, a.condition, status, reason, fmt.Sprintf(format, args...))
}

// disconnect says that an aspect is being undone, once: the time of its
// condition is when that began.
func (a aspect) disconnect(fc *v1alpha1.ForeignCluster, now time.Time) {
	if _, ok := a.disconnectingSince(fc); ok {
		return
	}
	*a.phase(&fc.Status) = v1alpha1.PeeringDisconnecting
	meta.RemoveStatusCondition(&fc.Status.Conditions, a.condition)
	meta.SetStatusCondition(&fc.Status.Conditions, metav1.Condition{
		Type:               a.condition,
		Status:             metav1.ConditionFalse,
		Reason:             ReasonDisconnecting,
		Message:            "The peering is being undone.",
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		ObservedGeneration: fc.Generation,
	})
}

func (a aspect) disconnectingSince(fc *v1alpha1.ForeignCluster) (time.Time, bool) {
	condition := meta.FindStatusCondition(fc.Status.Conditions, a.condition)
	if condition == nil || *a.phase(&fc.Status) != v1alpha1.PeeringDisconnecting {
		return time.Time{}, false
	}
	return condition.LastTransitionTime.Time, true
}

// left is how long undoing an aspect may still wait for the other cluster.
func (a aspect) left(p *pass) time.Duration {
	since := p.now
	if began, ok := a.disconnectingSince(p.fc); ok {
		since = began
	}
	held := meta.FindStatusCondition(p.fc.Status.Conditions, v1alpha1.ConditionVolumesReleased) != nil
	if deleted := p.fc.DeletionTimestamp; deleted != nil && deleted.Time.Before(since) && !held {
		since = deleted.Time
	}
	return since.Add(DisconnectTimeout(p.fc)).Sub(p.now)
}

// DisconnectTimeout bounds how long unpeering waits for the other cluster.
func DisconnectTimeout(fc *v1alpha1.ForeignCluster) time.Duration {
	seconds := v1alpha1.DefaultDisconnectTimeoutSeconds
	if fc.Spec.DisconnectTimeoutSeconds != nil {
		seconds = *fc.Spec.DisconnectTimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

func setCondition(fc *v1alpha1.ForeignCluster, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&fc.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: fc.Generation,
	})
}

// summarize sets what follows from the rest: how the identities of both
// directions stand together, and whether everything that is wanted works.
func summarize(p *pass) {
	fc := p.fc
	authAspect.summarize(fc, p.identity, p.tenant)
	for _, a := range aspects {
		if *a.phase(&fc.Status) == "" {
			a.set(fc, v1alpha1.PeeringNone, ReasonDisabled, "Nothing is wanted.")
		}
	}
	fc.Status.Networking = networking(p)
	fc.Status.ObservedGeneration = fc.Generation

	for _, direction := range []struct {
		wanted bool
		aspect aspect
	}{{kit.OutgoingEnabled(fc), outgoingAspect}, {kit.IncomingEnabled(fc), incomingAspect}} {
		if direction.wanted && *direction.aspect.phase(&fc.Status) != v1alpha1.PeeringEstablished {
			condition := meta.FindStatusCondition(fc.Status.Conditions, direction.aspect.condition)
			setCondition(fc, v1alpha1.ConditionReady, metav1.ConditionFalse, condition.Reason, condition.Message)
			return
		}
	}
	released := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionVolumesReleased)
	switch {
	case released != nil && released.Status == metav1.ConditionFalse && fc.Status.OutgoingPeering != v1alpha1.PeeringNone:
		setCondition(fc, v1alpha1.ConditionReady, metav1.ConditionFalse, released.Reason, released.Message)
	case !kit.OutgoingEnabled(fc) && !kit.IncomingEnabled(fc):
		setCondition(fc, v1alpha1.ConditionReady, metav1.ConditionFalse, ReasonDisabled, "No direction of the peering is wanted.")
	case p.unready != nil:
		setCondition(fc, v1alpha1.ConditionReady, metav1.ConditionFalse, p.unready.reason, p.unready.message)
	default:
		setCondition(fc, v1alpha1.ConditionReady, metav1.ConditionTrue, ReasonReady, "Every direction that is wanted is established.")
	}
}

// networking is whether the pods of both clusters reach each other. A flat
// network is there already: it takes no more than a peering that is wanted. How
// a tunnel stands is said by who agrees upon it.
func networking(p *pass) v1alpha1.PeeringPhase {
	switch cmp.Or(p.fc.Spec.Networking, p.networking) {
	case v1alpha1.NetworkingTunnel:
		return cmp.Or(p.fc.Status.Networking, v1alpha1.PeeringNone)
	case v1alpha1.NetworkingFlat:
		if kit.OutgoingEnabled(p.fc) || kit.IncomingEnabled(p.fc) {
			return v1alpha1.PeeringEstablished
		}
	}
	return v1alpha1.PeeringNone
}

// summarize takes the worse of two verdicts: one direction that works does not
// hide the other that does not.
func (a aspect) summarize(fc *v1alpha1.ForeignCluster, verdicts ...*verdict) {
	var worst *verdict
	for _, v := range verdicts {
		if v != nil && (worst == nil || worst.phase == v1alpha1.PeeringEstablished) {
			worst = v
		}
	}
	if worst == nil {
		a.set(fc, v1alpha1.PeeringNone, ReasonDisabled, "Nothing is wanted.")
		return
	}
	a.set(fc, worst.phase, worst.reason, "%s", worst.message)
}
