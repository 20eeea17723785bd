// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of events on volumes that are released.
const (
	// ReasonVolumeReleased means that the StorageClass that provisioned the local volume is set on it again.
	ReasonVolumeReleased = "VolumeReleased"
	// ReasonVolumeDeleted means that the claim on the provider is deleted; the message has what happened to its data.
	ReasonVolumeDeleted = "VolumeDeleted"
	// ReasonVolumeFailedDelete means that the provider refuses the deletion or does not respond, or the volume handle
	// is malformed. The deletion is retried; if the handle is malformed, delete the data and then the finalizer of the
	// volume.
	ReasonVolumeFailedDelete = "VolumeFailedDelete"
	// ReasonVolumeLeftBehind means that the data remains on the provider after the peering has ended or the namespace is
	// no longer offloaded. The message names the namespace on the provider.
	ReasonVolumeLeftBehind = "VolumeLeftBehind"
)

// Releaser ends the use of the volumes of deleted claims: it restores the StorageClass of local volumes, and deletes or
// retains volumes on providers by their reclaim policy.
type Releaser struct {
	*Config
	notices notices
}

// Reconcile restores the StorageClass of one local volume, or deletes or retains one volume on a provider, if the
// volume has no claim and no move uses it.
func (r *Releaser) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pv corev1.PersistentVolume
	if err := r.Client.Get(ctx, request.NamespacedName, &pv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllerutil.ContainsFinalizer(&pv, volume.Finalizer) {
		return ctrl.Result{}, nil
	}
	ended, err := r.ended(ctx, &pv)
	if err != nil || !ended {
		return ctrl.Result{}, err
	}
	handle, isRemote, err := volume.HandleOf(&pv)
	if err != nil {
		r.notices.warn(r.Events, &pv, ReasonVolumeFailedDelete,
			"%s: delete the data of the volume, and then its finalizer %s.", err, volume.Finalizer)
		return ctrl.Result{}, nil
	}
	if !isRemote {
		return unlessTerminating(ctrl.Result{}, r.handBack(ctx, &pv))
	}
	return unlessTerminating(r.releaseRemote(ctx, &pv, handle))
}

// ended reports whether a volume has no claim and no move uses it. The volume must be in the phase Released or being
// deleted, and the claim in its claimRef must not exist.
func (r *Releaser) ended(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	if pv.Status.Phase == corev1.VolumeBound || pv.Status.Phase != corev1.VolumeReleased && pv.DeletionTimestamp.IsZero() {
		return false, nil
	}
	if heldByMove(pv) {
		return false, nil
	}
	reference := pv.Spec.ClaimRef
	if reference == nil {
		return true, nil
	}
	var claim corev1.PersistentVolumeClaim
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, &claim)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading the claim of volume %s: %w", pv.Name, err)
	case err == nil && names(reference, &claim):
		return false, nil
	}
	var described v1alpha1.VirtualVolumeList
	if err := r.Live.List(ctx, &described, client.InNamespace(reference.Namespace)); err != nil {
		return false, fmt.Errorf("listing virtual volumes: %w", err)
	}
	for i := range described.Items {
		progress := described.Items[i].Status.Move
		if progress != nil && running(progress) &&
			progress.Phase != v1alpha1.MoveCleaning && progress.Phase != v1alpha1.MoveRollingBack &&
			(progress.Source.VolumeName == pv.Name || progress.Target.VolumeName == pv.Name) {
			return false, nil
		}
	}
	return true, nil
}

// heldByMove reports whether a move uses a volume, by the label or the annotation volume.LabelMove.
func heldByMove(pv *corev1.PersistentVolume) bool {
	_, marked := pv.Labels[volume.LabelMove]
	return marked || pv.Annotations[volume.LabelMove] != ""
}

// handBack restores the StorageClass that provisioned a local volume, and sets the reclaim policy that applies at its
// release, in one patch. The driver of the StorageClass then deletes or retains the volume.
func (r *Releaser) handBack(ctx context.Context, pv *corev1.PersistentVolume) error {
	if _, err := kit.Commit(ctx, r.Client, pv, handedBack(pv)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("restoring the StorageClass and the reclaim policy of volume %s: %w", pv.Name, err)
	}
	r.notices.record(r.Events, pv, corev1.EventTypeNormal, ReasonVolumeReleased,
		"The volume has StorageClass %s again, with reclaim policy %s.",
		pv.Annotations[volume.AnnotationStorageClass], wantedPolicy(pv))
	return nil
}

// handedBack returns a copy of a volume without the finalizer. In the copy of a local volume, it sets the StorageClass
// that provisioned the volume, and the reclaim policy that applies at its release.
func handedBack(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	if class, ok := pv.Annotations[volume.AnnotationStorageClass]; ok {
		wanted.Spec.StorageClassName = class
		wanted.Spec.PersistentVolumeReclaimPolicy = wantedPolicy(pv)
		delete(wanted.Annotations, volume.AnnotationStorageClass)
		delete(wanted.Annotations, volume.AnnotationReclaimPolicy)
	}
	controllerutil.RemoveFinalizer(wanted, volume.Finalizer)
	return wanted
}

// releaseRemote deletes the ShadowVolumeClaim on the provider, and then the PersistentVolume. With reclaim policy
// Delete, the provider deletes the data. With policy Retain, the provider retains the data, and the PersistentVolume
// remains Released until an administrator deletes it or the namespace of its claim is deleted. That namespace cannot
// wait for the administrator, because its deletion waits for the deletion of the remote namespace.
func (r *Releaser) releaseRemote(
	ctx context.Context, pv *corev1.PersistentVolume, handle volume.Handle,
) (ctrl.Result, error) {
	policy := v1alpha1.VolumeDeletionRetain
	if wantedPolicy(pv) == corev1.PersistentVolumeReclaimDelete {
		policy = v1alpha1.VolumeDeletionDelete
	} else if pv.DeletionTimestamp.IsZero() {
		if ends, err := r.namespaceEnds(ctx, pv); err != nil || !ends {
			return ctrl.Result{}, err
		}
	}
	cluster, err := r.foreignCluster(ctx, handle.ClusterID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil {
		r.notices.warn(r.Events, pv, ReasonVolumeLeftBehind,
			"The peering with cluster %s has ended: claim %s remains in its namespace %s.",
			handle.ClusterID, handle.Claim, handle.Namespace)
		return ctrl.Result{}, r.deleteVolume(ctx, pv)
	}
	at := place{cluster.Name, handle.Namespace}
	if err := r.Shadows.Watch(at); err != nil {
		return ctrl.Result{}, err
	}
	deleted, err := r.Shadows.remove(ctx, at, handle.Claim, policy)
	switch {
	case apierrors.IsForbidden(err):
		absent, absentErr := r.missing(ctx, at)
		if absentErr != nil {
			return ctrl.Result{}, absentErr
		}
		deleted = absent
		if absent {
			break
		}
		fallthrough
	case errors.Is(err, errNotConnected), remote.Unreachable(err):
		r.notices.warn(r.Events, pv, ReasonVolumeFailedDelete,
			"Deleting claim %s in namespace %s of %s failed and is retried: %s.",
			handle.Claim, handle.Namespace, cluster.Name, remote.Describe(err))
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("deleting claim %s in namespace %s of %s: %w",
			handle.Claim, handle.Namespace, cluster.Name, err)
	}
	if !deleted {
		return ctrl.Result{}, nil
	}
	r.notices.record(r.Events, pv, corev1.EventTypeNormal, ReasonVolumeDeleted,
		"Claim %s in namespace %s of %s was deleted with deletion policy %s.",
		handle.Claim, handle.Namespace, cluster.Name, policy)
	return ctrl.Result{}, r.deleteVolume(ctx, pv)
}

// namespaceEnds reports whether the namespace of a volume's claim is being deleted or does not exist.
func (r *Releaser) namespaceEnds(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	if pv.Spec.ClaimRef == nil {
		return false, nil
	}
	var namespace corev1.Namespace
	err := r.Live.Get(ctx, types.NamespacedName{Name: pv.Spec.ClaimRef.Namespace}, &namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the namespace of volume %s: %w", pv.Name, err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

// deleteVolume deletes a PersistentVolume and then removes its finalizer, so that a reconcile after a restart completes
// the deletion.
func (r *Releaser) deleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp.IsZero() {
		// The event of this deletion enqueues the volume again, and that reconcile removes the finalizer.
		return kit.Delete(ctx, r.Client, pv)
	}
	wanted := pv.DeepCopy()
	controllerutil.RemoveFinalizer(wanted, volume.Finalizer)
	if _, err := kit.Commit(ctx, r.Client, pv, wanted); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting volume %s: %w", pv.Name, err)
	}
	return nil
}
