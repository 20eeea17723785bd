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

// missingDelay is the age from which a volume is expected in the watch of its provider,
// and the time between two attempts to restore its ShadowVolumeClaim.
const missingDelay = time.Minute

// vanished reports whether a provider lost the ShadowVolumeClaim of a volume: the provider
// deleted it, or restored an older state of its store. It returns the time after which to check
// again if the result may change without an event.
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

// restore creates the ShadowVolumeClaim of a bound claim again if the provider lost it. The
// provider adopts its existing claim and volume. It returns the time after which to check again.
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
		// A malformed handle is the release's to report.
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
		p.notices.warn(claim, v1alpha1.ReasonShadowVolumeClaimMissing,
			"%s has no ShadowVolumeClaim %s in namespace %s any more, and it cannot be created again now: %s. "+
				"The creation is retried every minute.",
			cluster.Name, handle.Claim, handle.Namespace, strings.TrimSuffix(remote.Describe(err), "."))
		return again, nil
	}
	p.notices.warn(claim, v1alpha1.ReasonShadowVolumeClaimMissing,
		"%s had no ShadowVolumeClaim %s in namespace %s any more: it is created again, for the data that the provider keeps.",
		cluster.Name, handle.Claim, handle.Namespace)
	return 0, nil
}

// stillBound reports whether the API server has a claim and its volume as they were
// cached, and no move of the data.
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

// existingClaim returns the ShadowVolumeClaim of a volume that exists.
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
