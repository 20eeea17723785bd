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
	// ReasonVolumeReleased means that the volume belongs to its StorageClass again.
	ReasonVolumeReleased = "VolumeReleased"
	// ReasonVolumeDeleted means that the claim on the provider is deleted; the message has what happened to its data.
	ReasonVolumeDeleted = "VolumeDeleted"
	// ReasonVolumeFailedDelete means that the provider does not respond or refuses the deletion, which is
	// retried.
	ReasonVolumeFailedDelete = "VolumeFailedDelete"
	// ReasonVolumeLeftBehind means that the peering has ended, and the data remains on the provider. The message names
	// the namespace on the provider.
	ReasonVolumeLeftBehind = "VolumeLeftBehind"
)

// Releaser releases the volumes of deleted claims: it gives local volumes back to their own StorageClass, and deletes
// volumes on providers by their reclaim policy.
type Releaser struct {
	*Config
	notices notices
}

// NewReleaser returns the controller.
func NewReleaser(config *Config) *Releaser {
	return &Releaser{Config: config, notices: newNotices(config.Events)}
}

// Reconcile releases one volume if it has no claim and no move uses it.
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
		r.notices.warn(&pv, ReasonVolumeFailedDelete,
			"%s: delete the data of the volume, and then its finalizer %s.", err, volume.Finalizer)
		return ctrl.Result{}, nil
	}
	if !isRemote {
		return settled(ctrl.Result{}, r.handBack(ctx, &pv))
	}
	return settled(r.releaseRemote(ctx, &pv, handle))
}

// ended reports whether a volume has no claim and no move uses it: Kubernetes released it or it is being deleted, and
// its claim does not exist.
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

// heldByMove reports whether a move marked a volume as in use.
func heldByMove(pv *corev1.PersistentVolume) bool {
	_, marked := pv.Labels[volume.LabelMove]
	return marked || pv.Annotations[volume.LabelMove] != ""
}

// handBack restores the StorageClass that provisioned a local volume, and sets the reclaim policy that
// wantedPolicy returns, in one patch. The driver of the StorageClass then deletes or retains the volume.
func (r *Releaser) handBack(ctx context.Context, pv *corev1.PersistentVolume) error {
	if _, err := kit.Commit(ctx, r.Client, pv, handedBack(pv)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("handing volume %s back to its class: %w", pv.Name, err)
	}
	r.notices.record(pv, corev1.EventTypeNormal, ReasonVolumeReleased,
		"The volume belongs to StorageClass %s again, with reclaim policy %s.",
		pv.Annotations[volume.AnnotationStorageClass], wantedPolicy(pv))
	return nil
}

// handedBack returns a volume without the finalizer. A local volume has the StorageClass that provisioned it,
// and the reclaim policy that wantedPolicy returns.
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

// releaseRemote deletes the ShadowVolumeClaim on the provider, with the data if the reclaim policy is Delete, and then
// the PersistentVolume. A volume with policy Retain remains Released until an administrator deletes it or its namespace
// is deleted, because the deletion of the namespace would otherwise wait for the remote namespace. The provider retains
// the data.
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
		r.notices.warn(pv, ReasonVolumeLeftBehind,
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
		r.notices.warn(pv, ReasonVolumeFailedDelete,
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
	r.notices.record(pv, corev1.EventTypeNormal, ReasonVolumeDeleted,
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
