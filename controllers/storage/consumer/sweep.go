// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// sweep deletes what earlier attempts to provision a claim created: intermediate claims, and ShadowVolumeClaims without
// a volume. claim is nil if no claim has this name. It returns the time after which to retry if a provider was
// unreachable or denied the request, otherwise zero.
func (p *Provisioner) sweep(
	ctx context.Context, name types.NamespacedName, claim *corev1.PersistentVolumeClaim,
) (time.Duration, error) {
	var intermediates corev1.PersistentVolumeClaimList
	if err := p.Client.List(ctx, &intermediates, client.InNamespace(p.Namespace)); err != nil {
		return 0, fmt.Errorf("listing intermediate claims: %w", err)
	}
	for i := range intermediates.Items {
		intermediate := &intermediates.Items[i]
		if originOf(intermediate) != name || !intermediate.DeletionTimestamp.IsZero() || p.needed(intermediate, claim) {
			continue
		}
		if err := kit.Delete(ctx, p.Client, intermediate); err != nil {
			return 0, err
		}
	}
	orphans := p.Shadows.all(func(kept *v1alpha1.ShadowVolumeClaim) bool {
		return kept.Labels[v1alpha1.LabelOrigin] == p.ClusterID && kept.DeletionTimestamp.IsZero() &&
			kept.Annotations[v1alpha1.AnnotationOriginNamespace] == name.Namespace &&
			kept.Annotations[volume.AnnotationOriginClaim] == name.Name
	})
	var after time.Duration
	for _, orphan := range orphans {
		used, err := p.usedBy(ctx, orphan, claim)
		if err != nil {
			return 0, err
		}
		if used {
			continue
		}
		again, err := p.sweepShadow(ctx, orphan, name)
		if err != nil {
			return 0, err
		}
		after = max(after, again)
	}
	return after, nil
}

// usedBy reports whether kept, a ShadowVolumeClaim, may store the data of the volume that a claim is bound to. It has
// the name for that volume, and the volume handle refers to it, or the volume or the provider is unknown. claim may be
// nil.
func (p *Provisioner) usedBy(ctx context.Context, kept shadow, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim == nil || claim.Spec.VolumeName == "" ||
		volume.RemoteClaimName(claim.Name, claim.Spec.VolumeName) != kept.Name {
		return false, nil
	}
	var pv corev1.PersistentVolume
	if err := p.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &pv); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	current, isRemote, err := volume.HandleOf(&pv)
	if err != nil || !isRemote {
		// Releaser reports a malformed volume handle.
		return true, nil
	}
	handle, err := p.handleOf(ctx, kept)
	return handle == current || handle.ClusterID == "", err
}

// needed reports whether an intermediate claim is still needed to provision a claim. It is, until the user's claim is
// bound, because a second volume could be provisioned otherwise.
func (p *Provisioner) needed(intermediate, claim *corev1.PersistentVolumeClaim) bool {
	if claim == nil || volume.VolumeName(claim.UID) != intermediate.Name || !claim.DeletionTimestamp.IsZero() {
		return false
	}
	return claim.Status.Phase != corev1.ClaimBound
}

// sweepShadow deletes kept, a ShadowVolumeClaim of the current or an earlier claim with this name. It does nothing if a
// local volume refers to kept, or if kept belongs to the current claim, which is not bound and for which the scheduler
// has selected a node of this provider. The provider deletes the data if kept belongs to the current claim, kept is not
// Lost, and the claim is not bound, so that no pod has written data; otherwise it retains the data. sweepShadow returns
// the time after which to retry, or zero.
func (p *Provisioner) sweepShadow(ctx context.Context, kept shadow, name types.NamespacedName) (time.Duration, error) {
	at := place{kept.cluster, kept.Namespace}
	var current corev1.PersistentVolumeClaim
	err := p.Live.Get(ctx, name, &current)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading the claim: %w", err)
	}
	own := err == nil && waits(&current) &&
		volume.RemoteClaimName(current.Name, volume.VolumeName(current.UID)) == kept.Name
	if own {
		selected, err := p.selects(ctx, &current, kept.cluster)
		if err != nil || selected {
			return 0, err
		}
	}
	handle, err := p.handleOf(ctx, kept)
	if err != nil {
		return 0, err
	}
	if handle.ClusterID == "" {
		return retryDelay, nil
	}
	var volumes corev1.PersistentVolumeList
	if err := p.Live.List(ctx, &volumes); err != nil {
		return 0, fmt.Errorf("listing volumes: %w", err)
	}
	for i := range volumes.Items {
		if current, isRemote, err := volume.HandleOf(&volumes.Items[i]); err == nil && isRemote && current == handle {
			return 0, nil
		}
	}
	policy := v1alpha1.VolumeDeletionRetain
	if own && kept.Status.Phase != v1alpha1.ShadowVolumeClaimLost {
		policy = v1alpha1.VolumeDeletionDelete
	}
	_, err = p.Shadows.remove(ctx, at, kept.Name, policy)
	switch {
	case errors.Is(err, errNotConnected), remote.Unreachable(err), remote.Rejected(err):
		return retryDelay, nil
	case err != nil:
		return 0, fmt.Errorf("deleting ShadowVolumeClaim %s on %s: %w", kept.Name, kept.cluster, err)
	}
	return 0, nil
}

// selects reports whether the scheduler selected a virtual node of this provider for a claim.
func (p *Provisioner) selects(ctx context.Context, claim *corev1.PersistentVolumeClaim, cluster string) (bool, error) {
	selected := claim.Annotations[volume.AnnotationSelectedNode]
	if selected == "" {
		return false, nil
	}
	virtualNode, err := p.virtualNode(ctx, selected)
	return virtualNode != nil && naming.ForeignClusterOf(virtualNode.Namespace) == cluster, err
}
