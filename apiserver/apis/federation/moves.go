// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

// Ended reports whether a move at this phase has ended.
func (p MovePhase) Ended() bool {
	return p == MoveSucceeded || p == MoveFailed || p == MoveCancelled
}

// Cancellable reports whether a move at this phase can be rolled back on request: its claim is not
// bound to the target yet.
func (p MovePhase) Cancellable() bool {
	switch p {
	case "", MovePreparing, MoveCopying, MoveQuiescing, MoveLocking, MoveFinalCopy, MoveRollingBack:
		return true
	}
	return false
}

// MovePhase returns the phase of the requested move; empty if none is requested or it has not
// begun.
func (v *VirtualVolume) MovePhase() MovePhase {
	if v.Spec.Move == nil || v.Status.Move == nil || v.Status.Move.ID != v.Spec.Move.ID {
		return ""
	}
	return v.Status.Move.Phase
}

// Moving reports whether a requested move has not ended.
func (v *VirtualVolume) Moving() bool {
	return v.Spec.Move != nil && !v.MovePhase().Ended()
}

// RollingBack returns the ID of a move that is rolled back and no longer requested, and reports
// whether there is one.
func (v *VirtualVolume) RollingBack() (string, bool) {
	move := v.Status.Move
	if move == nil || move.Phase.Ended() || v.Spec.Move != nil && v.Spec.Move.ID == move.ID {
		return "", false
	}
	return move.ID, true
}
