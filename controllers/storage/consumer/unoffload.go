// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// Unoffloader does with the data of a namespace on a provider what its owner selected for
// the end of its offloading there.
type Unoffloader struct {
	*Config
	notices notices
}

// NewUnoffloader returns what package offloading calls.
func NewUnoffloader(config *Config) *Unoffloader {
	return &Unoffloader{Config: config, notices: newNotices(config.Events)}
}

// Held returns the names of the claims of a namespace whose data a provider stores, also
// of those that are gone and whose volume is still to be deleted.
func (u *Unoffloader) Held(ctx context.Context, namespace, cluster string) ([]string, error) {
	volumes, _, err := u.stored(ctx, namespace, cluster)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range volumes {
		// An administrator deletes a volume that is kept; it waits for nothing else.
		if volumes[i].Status.Phase != corev1.VolumeReleased || !volumes[i].DeletionTimestamp.IsZero() ||
			wantedPolicy(&volumes[i]) == corev1.PersistentVolumeReclaimDelete {
			names = append(names, volumes[i].Spec.ClaimRef.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// stored returns the volumes of a namespace's claims on a provider.
func (u *Unoffloader) stored(ctx context.Context, namespace, cluster string) ([]corev1.PersistentVolume, *v1alpha1.ForeignCluster, error) {
	var provider v1alpha1.ForeignCluster
	if err := u.Client.Get(ctx, types.NamespacedName{Name: cluster}, &provider); err != nil {
		return nil, nil, fmt.Errorf("reading foreign cluster %s: %w", cluster, err)
	}
	var volumes corev1.PersistentVolumeList
	if err := u.Client.List(ctx, &volumes); err != nil {
		return nil, nil, fmt.Errorf("listing volumes: %w", err)
	}
	var found []corev1.PersistentVolume
	for _, pv := range volumes.Items {
		handle, isRemote, err := volume.HandleOf(&pv)
		if err == nil && isRemote && handle.ClusterID == provider.Spec.ClusterID && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == namespace {
			found = append(found, pv)
		}
	}
	return found, &provider, nil
}

// Release begins to move the data to this cluster, or to release it, or leaves it where
// it is, as spec.volumes.onUnoffload selects.
func (u *Unoffloader) Release(ctx context.Context, offloading *v1alpha1.NamespaceOffloading, cluster string) error {
	volumes, _, err := u.stored(ctx, offloading.Namespace, cluster)
	if err != nil {
		return err
	}
	for i := range volumes {
		pv := &volumes[i]
		switch offloading.Spec.Volumes.OnUnoffload {
		case v1alpha1.UnoffloadMove:
			err = u.move(ctx, pv)
		case v1alpha1.UnoffloadRetain:
			err = u.giveUp(ctx, pv, corev1.PersistentVolumeReclaimRetain, cluster)
		case v1alpha1.UnoffloadDelete:
			err = u.giveUp(ctx, pv, corev1.PersistentVolumeReclaimDelete, cluster)
		}
		if apierrors.IsConflict(err) {
			// The next pass reads the volume again.
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// move requests a move of the data to this cluster, unless one was requested already: one
// that failed is for the owner of the claim to repeat.
func (u *Unoffloader) move(ctx context.Context, pv *corev1.PersistentVolume) error {
	var described v1alpha1.VirtualVolume
	err := u.Client.Get(ctx, types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}, &described)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	requested := described.Spec.Move
	if moving(&described) || requested != nil && requested.Target.Local && described.Status.Move != nil &&
		described.Status.Move.ID == requested.ID && described.Status.Move.Phase != v1alpha1.MoveSucceeded {
		return nil
	}
	wanted := described.DeepCopy()
	wanted.Spec.Move = &v1alpha1.RequestedMove{
		ID: string(uuid.NewUUID()), MoveSpec: v1alpha1.MoveSpec{Target: v1alpha1.MoveTarget{Local: true}},
	}
	if _, err := kit.Commit(ctx, u.Client, &described, wanted); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("moving the data of claim %s: %w", pv.Spec.ClaimRef.Name, err)
	}
	return nil
}

// giveUp takes a volume from its claim, which becomes Lost, with what is to happen to the
// data; the storage-release controller does the rest. The volume names a claim that does
// not exist, so that no other claim gets it.
func (u *Unoffloader) giveUp(ctx context.Context, pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy, cluster string) error {
	if pv.Spec.ClaimRef.UID != pv.UID {
		u.explain(ctx, pv, policy, cluster)
		wanted := pv.DeepCopy()
		wanted.Spec.ClaimRef.UID, wanted.Spec.ClaimRef.ResourceVersion = pv.UID, ""
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationReclaimPolicy, string(policy))
		if _, err := kit.Commit(ctx, u.Client, pv, wanted); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing volume %s: %w", pv.Name, err)
		}
		return nil
	}
	if !pv.DeletionTimestamp.IsZero() {
		return nil
	}
	return kit.Delete(ctx, u.Client, pv)
}

// explain records on the claim what happens to its data.
func (u *Unoffloader) explain(ctx context.Context, pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy, cluster string) {
	var claim corev1.PersistentVolumeClaim
	reference := pv.Spec.ClaimRef
	if u.Client.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, &claim) != nil {
		// Without a claim there is none to report to.
		return
	}
	handle, _, err := volume.HandleOf(pv)
	if err != nil {
		return
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		u.notices.warn(&claim, ReasonVolumeDeleted, "The namespace is no longer offloaded to %s: the data is deleted there.", cluster)
		return
	}
	u.notices.warn(&claim, ReasonVolumeLeftBehind, "The namespace is no longer offloaded to %s: the data is left there, of claim %s in namespace %s.",
		cluster, handle.Claim, handle.Namespace)
}
