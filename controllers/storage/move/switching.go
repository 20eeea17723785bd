// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// protection is the finalizer by which Kubernetes keeps a claim while pods mount it.
const protection = "kubernetes.io/pvc-protection"

// switchOver replaces the user's claim by a claim that is bound to the target volume. It sets the claimRef of the
// target to the name of the claim before it deletes the claim, so that the next claim of that name is bound to the
// target, whichever controller creates it.
func (m *move) switchOver(ctx context.Context) (outcome, error) {
	target, err := m.persistentVolume(ctx, m.progress.Target.VolumeName)
	if err != nil {
		return outcome{}, err
	}
	if target == nil {
		return giveUp("The target volume %s was deleted. The source %s is retained.",
			m.progress.Target.VolumeName, m.progress.Source.VolumeName), nil
	}
	claim, err := m.claim(ctx)
	if err != nil {
		return outcome{}, err
	}
	mark, ok := markOf(target)
	if !ok {
		if claim != nil && refersTo(target, m.key(claim.Name), claim.UID) {
			// The move has ended, and the status was restored from an older backup.
			return goTo(v1alpha1.MoveReleasing), nil
		}
		return outcome{}, fmt.Errorf("reading volume %s: it has no annotation %s any more", target.Name, annotationMark)
	}
	if mark.Manifest == nil {
		return m.reserveTarget(ctx, target, mark, claim)
	}
	if waiting, err := m.removeClaim(ctx, m.names.target); err != nil || waiting != "" {
		return waitFor(fastInterval, "%s", waiting), err
	}
	if claim != nil && claim.UID == mark.ClaimUID {
		return m.deleteClaim(ctx, claim)
	}
	return m.bindAgain(ctx, target, mark, claim)
}

// reserveTarget sets the claimRef of the target volume to the name of the user's claim, and records in annotationMark
// the claim to create. It waits until the movers are deleted and no pod uses the source; until then, a deleted claim or
// a passed moverTimeout rolls the move back, because pods that mount the claim cannot start.
func (m *move) reserveTarget(
	ctx context.Context, target *corev1.PersistentVolume, mark *Mark, claim *corev1.PersistentVolumeClaim,
) (outcome, error) {
	if sender, receiver, err := m.removeMovers(ctx); err != nil || !sender || !receiver {
		if m.timedOut() {
			return giveUp("The movers did not end within %s.", moverTimeout), nil
		}
		return waitFor(fastInterval, "Waiting until the movers are deleted."), err
	}
	source, _, err := m.source(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !m.same(claim) || source == nil {
		return giveUp("The claim or its volume was deleted."), nil
	}
	if err := m.annotateMoving(ctx, claim, m.progress.ID); err != nil {
		return m.unlessTimedOut(ctx, err)
	}
	waiting, err := m.outside(ctx, source)
	if err != nil {
		return m.unlessTimedOut(ctx, err)
	}
	if waiting != "" {
		if m.timedOut() {
			return giveUp("%s", waiting), nil
		}
		return waitFor(fastInterval, "%s", waiting), nil
	}
	reserve := func(pv *corev1.PersistentVolume) error {
		mark.Manifest = again(claim, target.Name)
		return mark.set(pv)
	}
	class := ptr.Deref(claim.Spec.StorageClassName, "")
	if err := m.bindTo(ctx, target, m.key(claim.Name), "", class, reserve); err != nil {
		return m.unlessTimedOut(ctx, err)
	}
	return waitFor(stepDelay, "Switching to the target."), nil
}

// timedOut reports whether the current phase has taken longer than moverTimeout.
func (m *move) timedOut() bool {
	return m.progress.PhaseTime != nil && m.exceeds(m.progress.PhaseTime.Time, moverTimeout)
}

// unlessTimedOut returns an error, so that the request is retried. If an API server still refuses the request after
// moverTimeout, although Role is bound, it returns the outcome that rolls the move back instead.
func (m *move) unlessTimedOut(ctx context.Context, err error) (outcome, error) {
	if !m.timedOut() || !remote.Refused(err) {
		return outcome{}, err
	}
	if bound, grantErr := m.grant(ctx); bound || grantErr != nil {
		return outcome{}, errors.Join(err, grantErr)
	}
	return giveUp("The deadline has passed, and a request still fails: %s.", err), nil
}

// deleteClaim deletes the user's claim, which names the source. It evicts pods that still mount the claim, and
// then removes the finalizer protection, because pods that mounted the claim and have ended would prevent the
// deletion.
func (m *move) deleteClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (outcome, error) {
	if claim.DeletionTimestamp.IsZero() {
		if err := m.annotateMoving(ctx, claim, m.progress.ID); err != nil {
			return m.unlessTimedOut(ctx, err)
		}
		if err := kit.Delete(ctx, m.Client, claim); err != nil {
			return m.unlessTimedOut(ctx, err)
		}
		return waitFor(stepDelay, "Waiting until the claim is deleted."), nil
	}
	pods, err := m.users(ctx)
	if err != nil {
		return outcome{}, err
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || hasEnded(pod) {
			continue
		}
		if _, err := m.evict(ctx, pod); err != nil {
			return outcome{}, err
		}
		return waitFor(fastInterval, "Waiting for pod %s, which cannot mount the claim, to end.", pod.Name), nil
	}
	if index := slices.Index(claim.Finalizers, protection); index >= 0 {
		patch, err := finalizerPatch(claim, slices.Delete(slices.Clone(claim.Finalizers), index, index+1))
		if err != nil {
			return outcome{}, err
		}
		if err := m.Client.Patch(ctx, claim, patch); client.IgnoreNotFound(err) != nil {
			return outcome{}, fmt.Errorf("removing the finalizer %s of the claim: %w", protection, err)
		}
	}
	return waitFor(stepDelay, "Waiting until the claim is deleted."), nil
}

// bindAgain creates the user's claim again, unless another client, for example the StatefulSet controller, has created
// it, and waits until it is bound to the target volume.
func (m *move) bindAgain(
	ctx context.Context, target *corev1.PersistentVolume, mark *Mark, claim *corev1.PersistentVolumeClaim,
) (outcome, error) {
	if claim == nil {
		err := m.Client.Create(ctx, mark.Manifest.DeepCopy())
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			// The reason may also be that Role is not bound any more.
			if bound, grantErr := m.grant(ctx); bound || grantErr != nil {
				return waitFor(stepDelay, "Creating the claim for volume %s.", target.Name), grantErr
			}
			return waitFor(pollInterval, "The claim for volume %s cannot be created again: %s.",
				target.Name, bounded(err.Error())), nil
		case err != nil && !apierrors.IsAlreadyExists(err):
			return outcome{}, fmt.Errorf("creating the claim again: %w", err)
		}
		return waitFor(stepDelay, "Waiting until the claim is bound to volume %s.", target.Name), nil
	}
	if complete := completed(claim, mark.Manifest); complete != nil {
		if _, err := kit.Commit(ctx, m.Client, claim, complete); err != nil {
			return outcome{}, fmt.Errorf("adding the labels and annotations of the replaced claim: %w", err)
		}
		return waitFor(stepDelay, "Waiting until the claim is bound to volume %s.", target.Name), nil
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != target.Name {
		if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != target.Name {
			return waitFor(pollInterval, "A claim of this name is bound to volume %s: the data is in volume %s.",
				claim.Spec.VolumeName, target.Name), nil
		}
		return m.touchBoth(ctx, claim)
	}
	if err := m.measureDowntime(ctx); err != nil {
		return outcome{}, err
	}
	return goTo(v1alpha1.MoveReleasing), nil
}

// completed returns a claim with the labels and annotations of the claim that it replaces, which a StatefulSet does not
// set; nil if it has all of them.
func completed(claim, manifest *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	wanted := claim.DeepCopy()
	changed := false
	for key, value := range manifest.Labels {
		if _, ok := wanted.Labels[key]; !ok {
			metaSet(&wanted.Labels, key, value)
			changed = true
		}
	}
	for key, value := range manifest.Annotations {
		if _, ok := wanted.Annotations[key]; !ok {
			metaSet(&wanted.Annotations, key, value)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return wanted
}

func metaSet(values *map[string]string, key, value string) {
	if *values == nil {
		*values = map[string]string{}
	}
	(*values)[key] = value
}

// measureDowntime records as the downtime of the move the time since Mark.Quiesced, when no pod used the source any
// more.
func (m *move) measureDowntime(ctx context.Context) error {
	source, err := m.persistentVolume(ctx, m.progress.Source.VolumeName)
	if err != nil || source == nil {
		return err
	}
	if mark, ok := markOf(source); ok && mark.Quiesced != nil {
		m.progress.DowntimeMilliseconds = ptr.To(max(0, m.Clock.Since(mark.Quiesced.Time).Milliseconds()))
	}
	return nil
}
