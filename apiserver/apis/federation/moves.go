// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package federation

// Ended reports whether the phase is Succeeded, Failed or Cancelled.
func (p MovePhase) Ended() bool {
	return p == MoveSucceeded || p == MoveFailed || p == MoveCancelled
}

// Cancellable reports whether a user can still cancel a move in this phase, because the claim is
// not bound to the target volume yet.
func (p MovePhase) Cancellable() bool {
	switch p {
	case "", MovePreparing, MoveCopying, MoveQuiescing, MoveLocking, MoveFinalCopy, MoveRollingBack:
		return true
	}
	return false
}

// MovePhase returns the phase of the requested move. It is empty if no move is requested, or if the
// requested move has not begun.
func (v *VirtualVolume) MovePhase() MovePhase {
	if v.Spec.Move == nil || v.Status.Move == nil || v.Status.Move.ID != v.Spec.Move.ID {
		return ""
	}
	return v.Status.Move.Phase
}

// Moving reports whether a requested move has not ended yet, including one that has not begun.
func (v *VirtualVolume) Moving() bool {
	return v.Spec.Move != nil && !v.MovePhase().Ended()
}

// RollingBack returns the ID of a move that is no longer requested and is being rolled back, and
// whether there is such a move.
func (v *VirtualVolume) RollingBack() (string, bool) {
	move := v.Status.Move
	if move == nil || move.Phase.Ended() || v.Spec.Move != nil && v.Spec.Move.ID == move.ID {
		return "", false
	}
	return move.ID, true
}
