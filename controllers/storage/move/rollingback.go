// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// rollBack binds the source volume to the user's claim again, removes the scheduling gates of its pods, and deletes the
// target volume. If the user deleted the claim during the move, the source volume is retained. Pods that use the source
// again do not wait for the movers, whose nodes or clusters may be unreachable: the sender only reads the source.
func (m *move) rollBack(ctx context.Context) (outcome, error) {
	if forward, err := m.onlyForward(ctx); err != nil || forward.next != "" {
		return forward, err
	}
	senderDeleted, receiverDeleted, err := m.removeMovers(ctx)
	if err != nil {
		return outcome{}, err
	}
	if waiting, err := m.unreserveTarget(ctx); err != nil || waiting != "" {
		return waitFor(fastInterval, "%s", waiting), err
	}
	if waiting, err := m.restoreSource(ctx); err != nil || waiting != "" {
		return waitFor(fastInterval, "%s", waiting), err
	}
	if err := m.ungate(ctx); err != nil {
		return outcome{}, err
	}
	if !senderDeleted {
		return waitFor(pollInterval, "Waiting until pod %s is deleted.", m.sender), nil
	}
	if waiting, err := m.releaseSource(ctx); err != nil || waiting != "" {
		return waitFor(fastInterval, "%s", waiting), err
	}
	if waiting, err := m.removeFence(ctx); err != nil || waiting != "" {
		return waitFor(pollInterval, "%s", waiting), err
	}
	if !receiverDeleted {
		return waitFor(pollInterval, "Waiting until pod %s is deleted.", m.receiver), nil
	}
	if waiting, err := m.discardTarget(ctx); err != nil || waiting != "" {
		return waitFor(fastInterval, "%s", waiting), err
	}
	if err := m.removeShared(ctx); err != nil {
		return outcome{}, err
	}
	if m.progress.Cancelled {
		return goTo(v1alpha1.MoveCancelled), nil
	}
	return goTo(v1alpha1.MoveFailed), nil
}

// unreserveTarget binds the target volume to the receiver's claim again, if it is reserved for the name of the user's
// claim, and removes Mark.Manifest. Otherwise a claim that the user creates while the rollback waits would be bound to
// the target, which lacks what pods have written to the restored source. It returns a sentence about the reason to call
// it again, or empty. It does nothing to a target that is bound to a newer claim: onlyForward continues such a move.
func (m *move) unreserveTarget(ctx context.Context) (string, error) {
	target, err := m.persistentVolume(ctx, m.progress.Target.VolumeName)
	if err != nil || target == nil {
		return "", err
	}
	mark, ok := markOf(target)
	if !ok || mark.ID != m.progress.ID || mark.Manifest == nil {
		return "", nil
	}
	claim, err := m.claim(ctx)
	if err != nil {
		return "", err
	}
	if reference := target.Spec.ClaimRef; reference != nil && reference.UID != "" && !m.same(claim) {
		return fmt.Sprintf("Volume %s is bound to a newer claim.", target.Name), nil
	}
	return "", m.bindTo(ctx, target, m.key(m.names.target), mark.TargetClaimUID, "",
		func(pv *corev1.PersistentVolume) error {
			mark.Manifest = nil
			return mark.set(pv)
		})
}

// onlyForward returns the phase in which a move continues because it cannot be rolled back: the user's claim has been
// replaced or is being replaced. Otherwise the outcome is empty.
func (m *move) onlyForward(ctx context.Context) (outcome, error) {
	_, target, err := m.markedVolumes(ctx, m.key(m.volume.Name))
	if err != nil {
		return outcome{}, err
	}
	if mark := markOrNil(target); mark == nil || mark.Manifest == nil || mark.ID != m.progress.ID {
		return m.alreadyEnded(ctx)
	}
	recovered, err := m.recovered(ctx, m.volume)
	if err != nil || recovered == nil {
		return outcome{}, err
	}
	if recovered.Source.VolumeName != "" {
		m.progress.Source = recovered.Source
	}
	m.progress.Target, m.progress.ClaimUID = recovered.Target, recovered.ClaimUID
	if recovered.Phase == v1alpha1.MoveRollingBack {
		return outcome{}, nil
	}
	m.progress.Cancelled = false
	return goTo(recovered.Phase), nil
}

// alreadyEnded returns the phase Releasing if the user's claim was replaced and is bound to the target, which has no
// annotationMark any more. Then the move had ended, and the phases from Releasing on delete the objects that were
// created again. Otherwise the outcome is empty.
func (m *move) alreadyEnded(ctx context.Context) (outcome, error) {
	claim, err := m.claim(ctx)
	if err != nil || claim == nil || claim.UID == m.progress.ClaimUID || m.progress.Target.VolumeName == "" ||
		claim.Spec.VolumeName != m.progress.Target.VolumeName || claim.Status.Phase != corev1.ClaimBound {
		return outcome{}, err
	}
	m.progress.Cancelled = false
	return goTo(v1alpha1.MoveReleasing), nil
}

// restoreSource binds a locked source volume to the user's current claim, if the claim can use it. It returns a
// sentence about the reason to call it again, or empty if the claim uses the source or never will.
func (m *move) restoreSource(ctx context.Context) (string, error) {
	claim, source, err := m.claimAndSource(ctx)
	if err != nil || source == nil || !usable(claim, source) {
		return "", err
	}
	switch {
	case m.isLocked(source):
		// The user may have created the claim again, which then has another UID than at the start of the move.
		if err := m.bindTo(ctx, source, m.key(claim.Name), claim.UID, "", nil); err != nil {
			return "", err
		}
	case !refersTo(source, m.key(claim.Name), claim.UID) || claim.Status.Phase == corev1.ClaimBound:
		return "", nil
	}
	held, err := m.claimNamed(ctx, m.names.source)
	if err != nil {
		return "", err
	}
	touched, err := m.touchBoth(ctx, claim, held)
	return touched.message, err
}

// releaseSource removes annotationMark from the source volume, and deletes the sender's claim. It returns a sentence
// about the reason to call it again, or empty if that claim no longer exists. A source that is still locked is
// retained, because its data would be deleted with the sender's claim.
func (m *move) releaseSource(ctx context.Context) (string, error) {
	_, source, err := m.claimAndSource(ctx)
	if err != nil {
		return "", err
	}
	if source != nil {
		if mark, ok := markOf(source); ok && mark.ID == m.progress.ID {
			wanted := source.DeepCopy()
			if m.isLocked(source) {
				discard(wanted, corev1.PersistentVolumeReclaimRetain)
			} else {
				unmark(wanted, mark)
			}
			if _, err := kit.Commit(ctx, m.Client, source, wanted); err != nil {
				return "", fmt.Errorf("restoring the reclaim policy of volume %s: %w", source.Name, err)
			}
		}
	}
	return m.removeClaim(ctx, m.names.source)
}

// claimAndSource returns the user's claim and the source volume; nil for each that does not exist.
func (m *move) claimAndSource(ctx context.Context) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := m.claim(ctx)
	if err != nil {
		return nil, nil, err
	}
	name := m.progress.Source.VolumeName
	if name == "" && claim != nil {
		// The move was cancelled after annotationMark of the source was set and before the status recorded the source.
		name = claim.Spec.VolumeName
	}
	source, err := m.persistentVolume(ctx, name)
	return claim, source, err
}

// usable reports whether a claim uses a volume, or Kubernetes can bind the claim to it: the claim may have been created
// again with other properties, and may be bound to another volume.
func usable(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	switch {
	case claim == nil || !claim.DeletionTimestamp.IsZero():
		return false
	case claim.Spec.VolumeName != "":
		return claim.Spec.VolumeName == pv.Name
	}
	return claim.Spec.Resources.Requests.Storage().Cmp(*pv.Spec.Capacity.Storage()) <= 0 &&
		ptr.Deref(claim.Spec.StorageClassName, "") == pv.Spec.StorageClassName &&
		ptr.Deref(claim.Spec.VolumeAttributesClassName, "") == ptr.Deref(pv.Spec.VolumeAttributesClassName, "") &&
		!storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec)
}

// discardTarget makes Releaser delete the target volume with its data, and deletes the receiver's claim. It returns a
// sentence about the reason to call it again, or empty if the claim no longer exists. If the claimRef of the target
// names the user's claim, discardTarget first sets it to the name and the UID of the receiver's claim, even if the
// receiver's claim was deleted, so that no other claim is bound to the target.
func (m *move) discardTarget(ctx context.Context) (string, error) {
	claim, err := m.claimNamed(ctx, m.names.target)
	if err != nil {
		return "", err
	}
	name := m.progress.Target.VolumeName
	if name == "" && claim != nil {
		name = claim.Spec.VolumeName
	}
	target, err := m.persistentVolume(ctx, name)
	if err != nil {
		return "", err
	}
	if target != nil {
		mark, marked := markOf(target)
		own := marked && mark.ID == m.progress.ID || claim != nil && refersTo(target, m.key(claim.Name), claim.UID)
		if own {
			if marked && !refersTo(target, m.key(m.names.target), mark.TargetClaimUID) {
				return fmt.Sprintf("Binding volume %s to claim %s.", target.Name, m.names.target),
					m.bindTo(ctx, target, m.key(m.names.target), mark.TargetClaimUID, "", nil)
			}
			wanted := target.DeepCopy()
			keep(wanted)
			discard(wanted, corev1.PersistentVolumeReclaimDelete)
			if _, err := kit.Commit(ctx, m.Client, target, wanted); err != nil {
				return "", fmt.Errorf("preparing the deletion of volume %s: %w", target.Name, err)
			}
		}
	}
	return m.removeClaim(ctx, m.names.target)
}
