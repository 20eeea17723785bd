// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
)

// StoredBy returns the volumes whose data a provider stores, sorted by namespace and name. Each has the policy that
// applies when the peering ends: spec.volumes.onUnoffload of its namespace's NamespaceOffloading, or Refuse if there is
// none. A volume without a claim has the policy Delete if that is its reclaim policy; retained volumes without a claim
// are omitted.
func (u *Unoffloader) StoredBy(
	ctx context.Context, provider *v1alpha1.ForeignCluster,
) ([]v1alpha1.PlannedVolume, error) {
	volumes, err := u.storedAt(ctx, provider)
	if err != nil || len(volumes) == 0 {
		return nil, err
	}
	policies, err := u.policies(ctx)
	if err != nil {
		return nil, err
	}
	var found []v1alpha1.PlannedVolume
	for i := range volumes {
		pv, reference := &volumes[i], volumes[i].Spec.ClaimRef
		if kept(pv) {
			continue
		}
		found = append(found, v1alpha1.PlannedVolume{
			Name: reference.Name, Namespace: reference.Namespace, ClusterName: provider.Name,
			Capacity: pv.Spec.Capacity.Storage(), OnUnoffload: policyOf(pv, policies),
		})
	}
	slices.SortFunc(found, func(a, b v1alpha1.PlannedVolume) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// ReleaseAll starts to move or to delete the data on a provider of all volumes for which this policy applies. It does
// nothing for other policies than Move and Delete, and it does not change the source and the target volume of a move
// before the move has ended. An error for one volume does not delay the others.
func (u *Unoffloader) ReleaseAll(
	ctx context.Context, provider *v1alpha1.ForeignCluster, policy v1alpha1.UnoffloadPolicy,
) error {
	volumes, err := u.storedAt(ctx, provider)
	if err != nil {
		return err
	}
	policies, err := u.policies(ctx)
	if err != nil {
		return err
	}
	u.obstacles.reset("", provider.Name)
	var errs []error
	for i := range volumes {
		pv := &volumes[i]
		var err error
		if kept(pv) || heldByMove(pv) || policyOf(pv, policies) != policy {
			continue
		}
		switch policy {
		case v1alpha1.UnoffloadMove:
			err = u.move(ctx, pv, provider.Name)
		case v1alpha1.UnoffloadDelete:
			err = u.giveUp(ctx, pv, corev1.PersistentVolumeReclaimDelete, provider.Name)
		}
		if !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// policies returns spec.volumes.onUnoffload of each NamespaceOffloading, by namespace.
func (u *Unoffloader) policies(ctx context.Context) (map[string]v1alpha1.UnoffloadPolicy, error) {
	var offloadings v1alpha1.NamespaceOffloadingList
	if err := u.Client.List(ctx, &offloadings); err != nil {
		return nil, fmt.Errorf("listing namespace offloadings: %w", err)
	}
	policies := map[string]v1alpha1.UnoffloadPolicy{}
	for i := range offloadings.Items {
		policies[offloadings.Items[i].Namespace] = offloadings.Items[i].Spec.Volumes.OnUnoffload
	}
	return policies, nil
}

// policyOf returns the policy that applies to a volume when the peering with its provider ends. policies has
// spec.volumes.onUnoffload by namespace. For a volume without a claim, its reclaim policy applies.
func policyOf(pv *corev1.PersistentVolume, policies map[string]v1alpha1.UnoffloadPolicy) v1alpha1.UnoffloadPolicy {
	switch {
	case pv.Status.Phase != corev1.VolumeReleased && pv.DeletionTimestamp.IsZero():
		return cmp.Or(policies[pv.Spec.ClaimRef.Namespace], v1alpha1.UnoffloadRefuse)
	case wantedPolicy(pv) == corev1.PersistentVolumeReclaimDelete:
		return v1alpha1.UnoffloadDelete
	}
	return v1alpha1.UnoffloadRetain
}

// kept reports whether a volume has no claim and is retained until an administrator deletes it.
func kept(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp.IsZero() && !heldByMove(pv) &&
		wantedPolicy(pv) == corev1.PersistentVolumeReclaimRetain
}

// storedAt returns the PersistentVolumes with a claimRef whose data a provider stores.
func (u *Unoffloader) storedAt(
	ctx context.Context, provider *v1alpha1.ForeignCluster,
) ([]corev1.PersistentVolume, error) {
	var volumes corev1.PersistentVolumeList
	if err := u.Client.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	return slices.DeleteFunc(volumes.Items, func(pv corev1.PersistentVolume) bool {
		handle, isRemote, err := volume.HandleOf(&pv)
		return err != nil || !isRemote || handle.ClusterID != provider.Spec.ClusterID || pv.Spec.ClaimRef == nil
	}), nil
}
