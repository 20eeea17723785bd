// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
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
	// message names, is retained, and counts towards the quota of the consumer. Delete the volume if it is not needed.
	reasonRetained = "VolumeRetained"
)

// releasedAtOnce is longer than the time between the creation of a volume whose claim does not exist any more and its
// phase Released, and shorter than the time for which a claim of a provider usually has its volume.
const releasedAtOnce = time.Minute

// delete deletes the claim when no pod uses it, and after that the volume if the deletion policy is Delete. In
// this order, no volume is deleted while a pod mounts its claim.
func (r *Reconciler) delete(ctx context.Context, o *observed) error {
	if !controllerutil.ContainsFinalizer(o.shadow, v1alpha1.Finalizer) {
		return nil
	}
	if o.own() {
		return r.deleteClaim(ctx, o)
	}
	if err := r.readVolume(ctx, o); err != nil {
		return err
	}
	if o.pv == nil || !o.marked() {
		return r.release(ctx, o)
	}
	if o.shadow.Status.VolumeName != o.pv.Name {
		// An earlier ShadowVolumeClaim of this name released the volume to the provider.
		return r.release(ctx, o)
	}
	if o.shadow.Spec.DeletionPolicy != v1alpha1.VolumeDeletionDelete {
		return r.releaseRetained(ctx, o, corev1.EventTypeNormal, "")
	}
	if !deletesData(o.pv) {
		return r.releaseRetained(ctx, o, corev1.EventTypeWarning, "The provider's StorageClass retains volumes. ")
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

// readVolume reads the volume that the status names from the API server, if the cache lacks the volume or its label,
// which was set before the claim was deleted.
func (r *Reconciler) readVolume(ctx context.Context, o *observed) error {
	name := o.shadow.Status.VolumeName
	if o.pv != nil {
		name = o.pv.Name
	}
	if name == "" || o.pv != nil && o.marked() {
		return nil
	}
	pv := &corev1.PersistentVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, pv)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the volume of claim %s: %w", client.ObjectKeyFromObject(o.shadow), err)
	}
	o.pv = o.volumeOf([]corev1.PersistentVolume{*pv})
	return nil
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

// releaseRetained labels the volume, which from then on counts itself, before it releases the ShadowVolumeClaim.
// Otherwise the consumer could fill the provider with volumes that count nowhere. why begins the message of the event.
func (r *Reconciler) releaseRetained(ctx context.Context, o *observed, kind, why string) error {
	wanted := counted(o.pv, o.namespace.Labels[v1alpha1.LabelForeignCluster])
	if _, err := kit.Commit(ctx, r.Client, o.pv, wanted); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling volume %s: %w", o.pv.Name, err)
	}
	r.Events.Eventf(o.shadow, kind, reasonRetained,
		"%sPersistentVolume %s keeps the data. It counts towards the quota of the consumer until an administrator of the "+
			"provider deletes it or takes it over.", why, o.pv.Name)
	return r.release(ctx, o)
}

// countRetained labels volumes that a claim of the consumer left and that count nowhere: their claimRef has the name of
// a claim and the UID of an earlier one. shadow is the ShadowVolumeClaim of this name, nil if there is none.
//
// A volume without the label of a consumer that has LabelRetained was taken over by an administrator.
func (r *Reconciler) countRetained(
	ctx context.Context, key client.ObjectKey, shadow *v1alpha1.ShadowVolumeClaim,
) error {
	var pvs corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &pvs, client.MatchingFields{kit.IndexClaimRef: key.String()}); err != nil {
		return fmt.Errorf("listing the volumes of claim %s: %w", key, err)
	}
	for i := range pvs.Items {
		pv := &pvs.Items[i]
		if _, known := pv.Labels[volume.LabelRetained]; known || pv.Spec.ClaimRef.UID == "" ||
			shadow != nil && shadow.Status.VolumeName == pv.Name {
			continue
		}
		namespace := &corev1.Namespace{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); err != nil || !isRemote(namespace) {
			return client.IgnoreNotFound(err)
		}
		// The cache may have received the volume before its claim.
		claim, err := claimOf(ctx, r.Live, key)
		if err != nil {
			return err
		}
		foreignCluster := namespace.Labels[v1alpha1.LabelForeignCluster]
		if claim != nil && claim.UID == pv.Spec.ClaimRef.UID || !leftBy(foreignCluster, pv) {
			continue
		}
		wanted := counted(pv, foreignCluster)
		if _, err := kit.Commit(ctx, r.Client, pv, wanted); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("labelling volume %s: %w", pv.Name, err)
		}
	}
	return nil
}

// leftBy reports whether a released volume is of a ShadowVolumeClaim of this consumer, and not of a claim that the
// provider created in the remote namespace. A volume without the label of the consumer was not bound before its claim
// was deleted: its provisioner created it afterwards, so that Kubernetes released it at once.
func leftBy(foreignCluster string, pv *corev1.PersistentVolume) bool {
	released := pv.Status.LastPhaseTransitionTime
	return pv.Labels[v1alpha1.LabelForeignCluster] == foreignCluster ||
		pv.Annotations[volume.AnnotationProvisionedBy] != "" && pv.Status.Phase == corev1.VolumeReleased &&
			released != nil && released.Sub(pv.CreationTimestamp.Time) < releasedAtOnce
}

// release removes the finalizer of the ShadowVolumeClaim. With the ShadowVolumeClaim, its quota is released, too.
func (r *Reconciler) release(ctx context.Context, o *observed) error {
	wanted := o.shadow.DeepCopy()
	controllerutil.RemoveFinalizer(wanted, v1alpha1.Finalizer)
	_, err := kit.Commit(ctx, r.Client, o.shadow, wanted)
	return client.IgnoreNotFound(err)
}
