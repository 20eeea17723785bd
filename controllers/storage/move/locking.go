// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// lock binds the source volume to the sender's claim, so that kubelets do not mount the volume for other pods.
// Before that, the set of pods that use the volume is not final, because the scheduler binds pods that mount
// the user's claim until the claim is Lost.
func (m *move) lock(ctx context.Context) (outcome, error) {
	claim, err := m.claim(ctx)
	if err != nil {
		return outcome{}, err
	}
	source, _, err := m.source(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !m.same(claim) || source == nil {
		return giveUp("The claim or its volume was deleted."), nil
	}
	// Without the annotation, new pods get no scheduling gate, and the claim cannot be replaced.
	if err := m.annotateMoving(ctx, claim, m.progress.ID); err != nil {
		return outcome{}, err
	}
	held, err := m.createClaim(ctx, m.moverClaim(m.names.source, claim, source))
	if err != nil || held == nil {
		return waitFor(fastInterval, "Waiting for claim %s.", m.names.source), err
	}
	if refersTo(source, m.key(claim.Name), claim.UID) {
		if !source.DeletionTimestamp.IsZero() {
			return giveUp("Volume %s is being deleted, and Kubernetes binds no other claim to it.", source.Name), nil
		}
		if err := m.bindTo(ctx, source, m.key(held.Name), held.UID, "", nil); err != nil {
			return outcome{}, err
		}
		return m.touchBoth(ctx, claim, held)
	}
	if !refersTo(source, m.key(held.Name), held.UID) {
		return giveUp("Another claim was bound to the source volume."), nil
	}
	if claim.Status.Phase != corev1.ClaimLost || held.Status.Phase != corev1.ClaimBound {
		if m.late() {
			return giveUp("Kubernetes did not bind volume %s to claim %s in time.", source.Name, held.Name), nil
		}
		return m.touchBoth(ctx, claim, held)
	}
	waiting, err := m.outside(ctx, source)
	if err != nil {
		return outcome{}, err
	}
	if waiting == "" {
		return goTo(v1alpha1.MoveFinalCopy), nil
	}
	if m.late() {
		return giveUp("%s", waiting), nil
	}
	return waitFor(fastInterval, "%s", waiting), nil
}

// isLocked reports whether a volume is bound to the sender's claim.
func (m *move) isLocked(source *corev1.PersistentVolume) bool {
	reference := source.Spec.ClaimRef
	return reference != nil && reference.Name == m.names.source && reference.Namespace == m.volume.Namespace
}

// outside evicts pods that were bound to a node before the claim was Lost. It returns a sentence about the pods to wait
// for, on local nodes or on the provider that stores the source, or empty if no pod uses the source.
func (m *move) outside(ctx context.Context, source *corev1.PersistentVolume) (string, error) {
	left, err := m.drain(ctx, source)
	if err != nil {
		return "", err
	}
	if len(left) > 0 {
		return fmt.Sprintf("Waiting for pods to end: %s.", strings.Join(left, ", ")), nil
	}
	return m.fence(ctx)
}

// touchBoth changes annotationTouched of each claim at most once per second, so that Kubernetes computes the phases of
// the claims. It returns the outcome to wait for that.
func (m *move) touchBoth(ctx context.Context, claims ...*corev1.PersistentVolumeClaim) (outcome, error) {
	for _, claim := range claims {
		if claim == nil || m.touchedLately(claim) {
			continue
		}
		if err := m.touch(ctx, claim); err != nil {
			return outcome{}, err
		}
	}
	return waitFor(stepDelay, "Waiting until Kubernetes has bound the claims."), nil
}

// touchedLately reports whether annotationTouched of a claim was changed within the last second.
func (m *move) touchedLately(claim metav1.Object) bool {
	last, err := time.Parse(time.RFC3339Nano, claim.GetAnnotations()[annotationTouched])
	return err == nil && m.Clock.Since(last) < time.Second
}
