// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/remote"
)

// missingDelay is the age of a volume after which its ShadowVolumeClaim counts as lost if it is not in the cache, and
// the time between two attempts to create it again.
const missingDelay = time.Minute

// vanished reports whether the ShadowVolumeClaim of a volume no longer exists, because the provider deleted it or
// restored an older backup of its store. It also returns the time after which to check again, or zero if an event will
// cause the check.
func (c *Config) vanished(pv *corev1.PersistentVolume, at place, claim string) (bool, time.Duration, error) {
	if err := c.Shadows.Watch(at); err != nil {
		return false, 0, err
	}
	kept, complete := c.Shadows.cached(at, claim)
	switch age := time.Since(pv.CreationTimestamp.Time); {
	case kept != nil:
		return false, 0, nil
	case !complete:
		return false, missingDelay, nil
	case age < missingDelay:
		return false, missingDelay - age, nil
	}
	return true, missingDelay, nil
}

// restore creates the ShadowVolumeClaim of a bound claim again if the provider lost it. The provider then uses its
// existing claim and volume. It returns the time after which to check again, or zero.
func (p *Provisioner) restore(ctx context.Context, claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	if claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound || !claim.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	var pv corev1.PersistentVolume
	if err := p.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &pv); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	handle, isRemote, err := volume.HandleOf(&pv)
	if err != nil || !isRemote || !names(pv.Spec.ClaimRef, claim) {
		// Releaser reports a malformed volume handle.
		return 0, nil
	}
	cluster, err := p.foreignCluster(ctx, handle.ClusterID)
	if err != nil || cluster == nil || placement.Ending(cluster) {
		return 0, err
	}
	at := place{cluster.Name, handle.Namespace}
	vanished, again, err := p.vanished(&pv, at, handle.Claim)
	if err != nil || !vanished {
		return again, err
	}
	if bound, err := p.stillBound(ctx, claim, &pv); err != nil || !bound {
		return 0, err
	}
	_, err = p.Shadows.create(ctx, at, p.existingClaim(claim, &pv, handle))
	switch {
	case errors.Is(err, errNotConnected):
		return again, nil
	case err != nil:
		p.notices.warn(p.Events, claim, v1alpha1.ReasonShadowVolumeClaimMissing,
			"%s lost ShadowVolumeClaim %s in namespace %s, and creating it again failed: %s. "+
				"The creation is retried every minute.",
			cluster.Name, handle.Claim, handle.Namespace, strings.TrimSuffix(remote.Describe(err), "."))
		return again, nil
	}
	p.notices.warn(p.Events, claim, v1alpha1.ReasonShadowVolumeClaimMissing,
		"%s lost ShadowVolumeClaim %s in namespace %s: it was created again for the data, which the provider retains.",
		cluster.Name, handle.Claim, handle.Namespace)
	return 0, nil
}

// stillBound reports whether the API server has the claim and its volume as they were cached, still bound, and no move
// of the data is running or requested.
func (p *Provisioner) stillBound(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume,
) (bool, error) {
	var current corev1.PersistentVolumeClaim
	var described v1alpha1.VirtualVolume
	var currentVolume corev1.PersistentVolume
	key := client.ObjectKeyFromObject(claim)
	for _, err := range []error{
		p.Live.Get(ctx, key, &current), p.Live.Get(ctx, key, &described),
		p.Live.Get(ctx, client.ObjectKeyFromObject(pv), &currentVolume),
	} {
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("reading claim %s and its volume: %w", key, err)
		}
	}
	return current.UID == claim.UID && current.DeletionTimestamp.IsZero() && current.Spec.VolumeName == pv.Name &&
		!moving(&described) && currentVolume.DeletionTimestamp.IsZero() && names(currentVolume.Spec.ClaimRef, &current), nil
}

// existingClaim returns the ShadowVolumeClaim to create for a volume whose data the provider stores already.
func (p *Provisioner) existingClaim(
	claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, handle volume.Handle,
) *v1alpha1.ShadowVolumeClaim {
	existing := p.shadowClaim(claim, pv.Annotations[volume.AnnotationStorageClass], handle.ClusterID)
	existing.Name = handle.Claim
	existing.Spec.AccessModes = pv.Spec.AccessModes
	existing.Spec.Storage = *pv.Spec.Capacity.Storage()
	existing.Spec.Existing = true
	return existing
}
