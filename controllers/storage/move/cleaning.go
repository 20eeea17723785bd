// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// clean deletes the movers and removes annotationMark from both volumes: Releaser then deletes the source volume, or
// retains it with spec.keepSource, and the target volume gets its reclaim policy back.
func (m *move) clean(ctx context.Context) (outcome, error) {
	// A pod that was created while the phase Releasing removed scheduling gates may still have one.
	if err := m.removeGates(ctx); err != nil {
		return outcome{}, err
	}
	if sender, receiver, err := m.removeMovers(ctx); err != nil || !sender || !receiver {
		return waitFor(pollInterval, "Waiting until the movers are deleted."), err
	}
	source, err := m.persistentVolume(ctx, m.progress.Source.VolumeName)
	if err != nil {
		return outcome{}, err
	}
	if source != nil {
		if mark, ok := markOf(source); ok {
			policy := corev1.PersistentVolumeReclaimDelete
			if mark.KeepSource {
				policy = corev1.PersistentVolumeReclaimRetain
				if waiting, err := m.removeFence(ctx); err != nil || waiting != "" {
					return waitFor(pollInterval, "%s", waiting), err
				}
			}
			wanted := source.DeepCopy()
			discard(wanted, policy)
			if _, err := kit.Commit(ctx, m.Client, source, wanted); err != nil {
				return outcome{}, fmt.Errorf("removing the annotation of the move from the source volume: %w", err)
			}
		}
	}
	if waiting, err := m.removeClaim(ctx, m.names.source); err != nil || waiting != "" {
		return waitFor(pollInterval, "%s", waiting), err
	}
	if err := m.removeShared(ctx); err != nil {
		return outcome{}, err
	}
	if err := m.finishTarget(ctx); err != nil {
		return outcome{}, err
	}
	return outcome{next: v1alpha1.MoveSucceeded, message: "The claim uses volume " + m.progress.Target.VolumeName + "."},
		nil
}

// finishTarget removes annotationMark from the target volume and restores the reclaim policy that the volume had before
// the move.
func (m *move) finishTarget(ctx context.Context) error {
	target, err := m.persistentVolume(ctx, m.progress.Target.VolumeName)
	if err != nil || target == nil {
		return err
	}
	mark, ok := markOf(target)
	if !ok {
		return nil
	}
	wanted := target.DeepCopy()
	unmark(wanted, mark)
	if _, err := kit.Commit(ctx, m.Client, target, wanted); err != nil {
		return fmt.Errorf("restoring the reclaim policy of volume %s: %w", target.Name, err)
	}
	return nil
}
