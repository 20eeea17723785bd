// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// Reasons of events on claims and volumes that are moved. Further reasons are eventPrefix followed by a phase
// of a move.
const (
	// ReasonAbandoned means that the namespace was deleted during the move, and both volumes are retained. Delete the
	// volume that is not needed.
	ReasonAbandoned = "MoveAbandoned"

	eventPrefix = "Move"
)

// lockedPhases has the phases in which the user's claim is Lost, because the source volume is bound to the sender's
// claim.
var lockedPhases = map[v1alpha1.MovePhase]bool{
	v1alpha1.MoveLocking: true, v1alpha1.MoveFinalCopy: true, v1alpha1.MoveSwitching: true,
}

// condition returns the condition Moved. While the claim is Lost, its message explains the warning that Kubernetes
// records on the claim.
func (m *move) condition() metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionVolumeMoved, Status: metav1.ConditionUnknown, Reason: string(m.progress.Phase),
		ObservedGeneration: m.observedGeneration(), Message: phaseMessages[m.progress.Phase],
	}
	if lockedPhases[m.progress.Phase] {
		condition.Message += " The claim is Lost and has the event ClaimMisbound until the move " +
			"has switched to the target or was rolled back."
	}
	switch m.progress.Phase {
	case v1alpha1.MoveSucceeded:
		condition.Status = metav1.ConditionTrue
	case v1alpha1.MoveFailed, v1alpha1.MoveCancelled:
		condition.Status = metav1.ConditionFalse
		condition.Message = m.progress.Message
	case v1alpha1.MoveRollingBack:
		condition.Message += " " + m.progress.Message
		if m.waiting != "" {
			condition.Message += " " + m.waiting
		}
	}
	return condition
}

// observedGeneration returns the generation of the virtual volume if its spec requests this move or none. Otherwise,
// for example if only annotationMark of the volumes records this move, it returns the generation in the last condition
// Moved, or zero.
func (m *move) observedGeneration() int64 {
	if requested := m.volume.Spec.Move; requested == nil || requested.ID == m.progress.ID {
		return m.volume.Generation
	}
	if last := apimeta.FindStatusCondition(m.volume.Status.Conditions, v1alpha1.ConditionVolumeMoved); last != nil {
		return last.ObservedGeneration
	}
	return 0
}

// hasBegun reports whether the move that the spec requests was started before, although the status records another
// move: the condition Moved has the current generation. Then the spec was restored from a backup, and the requested
// move has ended.
func hasBegun(vv *v1alpha1.VirtualVolume) bool {
	last := apimeta.FindStatusCondition(vv.Status.Conditions, v1alpha1.ConditionVolumeMoved)
	return last != nil && last.ObservedGeneration == vv.Generation
}

// phaseMessages has the message of the condition Moved and of the event for each phase.
var phaseMessages = map[v1alpha1.MovePhase]string{
	v1alpha1.MovePreparing:   "The target volume is being prepared.",
	v1alpha1.MoveCopying:     "The data is being copied while pods use it.",
	v1alpha1.MoveQuiescing:   "New pods that mount the claim wait, and running ones are evicted.",
	v1alpha1.MoveLocking:     "The source volume is being bound to the claim of the sender, so that only movers mount it.",
	v1alpha1.MoveFinalCopy:   "The last changes are being copied and verified.",
	v1alpha1.MoveSwitching:   "The claim is being bound to the target volume.",
	v1alpha1.MoveReleasing:   "The scheduling gates of the pods that waited are being removed.",
	v1alpha1.MoveCleaning:    "The movers are being deleted, and the source volume is being deleted or retained.",
	v1alpha1.MoveRollingBack: "The move is being rolled back.",
	v1alpha1.MoveSucceeded:   "The data was moved.",
	v1alpha1.MoveFailed:      "The move was rolled back.",
	v1alpha1.MoveCancelled:   "The move was cancelled.",
}

// announce records the event of the current phase on the virtual volume and on the claim. If the move has ended, it
// updates the metrics.
func (m *move) announce(ctx context.Context) {
	kind, message := corev1.EventTypeNormal, phaseMessages[m.progress.Phase]
	if m.progress.Phase == v1alpha1.MoveRollingBack || m.progress.Phase == v1alpha1.MoveFailed {
		kind = corev1.EventTypeWarning
	}
	if m.progress.Message != "" && m.progress.Message != message {
		message += " " + m.progress.Message
	}
	reason := eventPrefix + string(m.progress.Phase)
	m.Events.Event(m.volume, kind, reason, message)
	// If the claim cannot be read, only the virtual volume gets the event.
	if claim, err := m.claim(ctx); err == nil && claim != nil {
		m.Events.Event(claim, kind, reason, message)
	}
	if ended(m.progress.Phase) {
		observe(m.progress)
	}
}
