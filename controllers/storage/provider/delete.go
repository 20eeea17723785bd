// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition VolumeBound of a ShadowVolumeClaim that is being deleted.
const (
	// reasonInUse means that a pod that has not ended mounts the claim. Delete the pod.
	reasonInUse = "InUse"
	// reasonDeleting means that the claim or the volume is being deleted. If the claim remains, delete the pods
	// that mounted it and have ended.
	reasonDeleting = "Deleting"
	// reasonDeletionFailed means that the provisioner cannot delete the volume; the message is the
	// provisioner's. Check the provisioner.
	reasonDeletionFailed = "DeletionFailed"
	// reasonRetained of an event on a ShadowVolumeClaim means that the claim is deleted and its volume, which the
	// message names, is retained. Delete the volume if it is not needed.
	reasonRetained = "VolumeRetained"
)

// delete deletes the claim when no pod uses it, and after that the volume if the deletion policy is Delete. In
// this order, no volume is deleted while a pod mounts its claim.
func (r *Reconciler) delete(ctx context.Context, o *observed) error {
	if !controllerutil.ContainsFinalizer(o.shadow, v1alpha1.Finalizer) {
		return nil
	}
	if o.own() {
		return r.deleteClaim(ctx, o)
	}
	if o.pv != nil && !o.marked() {
		// The label was set before the claim was deleted, but the cache may not have received that yet.
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.pv), o.pv); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the volume of claim %s: %w", client.ObjectKeyFromObject(o.shadow), err)
		}
	}
	if o.pv == nil || !o.marked() {
		return r.release(ctx, o)
	}
	if o.shadow.Status.VolumeName != o.pv.Name {
		// An earlier ShadowVolumeClaim of this name released the volume to the provider.
		return r.release(ctx, o)
	}
	if o.shadow.Spec.DeletionPolicy != v1alpha1.VolumeDeletionDelete {
		r.Events.Eventf(o.shadow, corev1.EventTypeNormal, reasonRetained,
			"PersistentVolume %s of the provider retains the data, which does not count against the consumer's quota any more.",
			o.pv.Name)
		return r.release(ctx, o)
	}
	if !deletesData(o.pv) {
		r.Events.Eventf(o.shadow, corev1.EventTypeWarning, reasonRetained,
			"The provider's StorageClass retains volumes: PersistentVolume %s keeps the data.", o.pv.Name)
		return r.release(ctx, o)
	}
	// If the volume was deleted meanwhile, its event enqueues the ShadowVolumeClaim again.
	if _, err := kit.Commit(ctx, r.Client, o.pv, handedBack(o.pv)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("restoring the reclaim policy of volume %s: %w", o.pv.Name, err)
	}
	if o.pv.Status.Phase == corev1.VolumeFailed {
		return r.reportDeletion(ctx, o, reasonDeletionFailed,
			"The provider cannot delete the volume: "+remote.Text(o.pv.Status.Message))
	}
	return r.reportDeletion(ctx, o, reasonDeleting, fmt.Sprintf("The provider deletes PersistentVolume %s.", o.pv.Name))
}

// marked reports whether the volume has the label LabelForeignCluster of this consumer, which retain sets.
func (o *observed) marked() bool {
	return o.pv.Labels[v1alpha1.LabelForeignCluster] == o.namespace.Labels[v1alpha1.LabelForeignCluster]
}

// deleteClaim retains the volume, and deletes the claim when no pod uses it.
func (r *Reconciler) deleteClaim(ctx context.Context, o *observed) error {
	if err := r.retain(ctx, o); err != nil {
		return err
	}
	if len(o.pods) > 0 {
		return r.reportDeletion(ctx, o, reasonInUse,
			fmt.Sprintf("The claim is deleted once pod %s has ended.", o.pods[0].Name))
	}
	if o.claim.Spec.VolumeName != "" && o.pv == nil && o.claim.Status.Phase != corev1.ClaimLost {
		// The volume is not in the cache, so it was not retained. Deleting the claim now could delete the data.
		err := r.Live.Get(ctx, client.ObjectKey{Name: o.claim.Spec.VolumeName}, &corev1.PersistentVolume{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the volume of claim %s: %w", client.ObjectKeyFromObject(o.claim), err)
		}
		if err == nil {
			return fmt.Errorf("deleting claim %s: its volume %s is not in the cache yet", client.ObjectKeyFromObject(o.claim),
				o.claim.Spec.VolumeName)
		}
	}
	// The status must have the name of the volume before the claim is deleted, because later reconciles find
	// the volume by the name in the status.
	if err := r.reportDeletion(ctx, o, reasonDeleting, "The provider deletes the claim."); err != nil {
		return err
	}
	if o.claim.DeletionTimestamp.IsZero() {
		return kit.Delete(ctx, r.Client, o.claim)
	}
	return nil
}

// reportDeletion updates the status with the reason why the deletion is not complete.
func (r *Reconciler) reportDeletion(ctx context.Context, o *observed, reason, message string) error {
	wanted := o.shadow.DeepCopy()
	wanted.Status = o.status(r.Clock.Now())
	wanted.Status.Phase = o.shadow.Status.Phase
	if o.own() && wanted.Status.VolumeName == "" {
		wanted.Status.VolumeName = o.claim.Spec.VolumeName
	}
	status := metav1.ConditionFalse
	if o.own() && o.claim.Status.Phase == corev1.ClaimBound {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&wanted.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionVolumeBound, Status: status, Reason: reason, Message: message,
		ObservedGeneration: o.shadow.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	_, err := kit.Commit(ctx, r.Client, o.shadow, wanted)
	return client.IgnoreNotFound(err)
}

// release removes the finalizer of the ShadowVolumeClaim. With the ShadowVolumeClaim, its quota is released, too.
func (r *Reconciler) release(ctx context.Context, o *observed) error {
	wanted := o.shadow.DeepCopy()
	controllerutil.RemoveFinalizer(wanted, v1alpha1.Finalizer)
	_, err := kit.Commit(ctx, r.Client, o.shadow, wanted)
	return client.IgnoreNotFound(err)
}
