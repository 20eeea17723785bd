// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

const (
	// refusalRetry is the time after which a write is retried that the provider's API server refused.
	refusalRetry = 5 * time.Minute
	// fenceCheck is the time between two checks of the nodes of pods that were deleted by force, while a move waits for
	// these pods.
	fenceCheck = 10 * time.Second
)

// Reconcile creates, expands or deletes the claim of one ShadowVolumeClaim, and updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	shadow := &v1alpha1.ShadowVolumeClaim{}
	err := r.Client.Get(ctx, request.NamespacedName, shadow)
	if apierrors.IsNotFound(err) {
		return kit.Result(0, errors.Join(r.countRetained(ctx, request.NamespacedName, nil),
			r.withoutShadow(ctx, request.NamespacedName)))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.orphans.forget(request.NamespacedName)
	// A volume of an earlier claim that cannot be labelled does not block this one.
	uncounted := r.countRetained(ctx, request.NamespacedName, shadow)
	o, err := r.observe(ctx, shadow)
	if err != nil {
		return ctrl.Result{}, errors.Join(uncounted, err)
	}
	if !shadow.DeletionTimestamp.IsZero() {
		return kit.Result(0, errors.Join(uncounted, r.delete(ctx, o)))
	}
	after, err := r.keep(ctx, o)
	return kit.Result(after, errors.Join(uncounted, err))
}

// observed is the state of one ShadowVolumeClaim and the objects that it depends on.
type observed struct {
	shadow    *v1alpha1.ShadowVolumeClaim
	namespace *corev1.Namespace
	// claim is the claim with the name of the ShadowVolumeClaim, and pv its volume; nil if it does not exist.
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	// prepared is the name of a volume that an administrator prepared for the claim, by a claimRef with its name and no
	// UID; empty if there is none.
	prepared string
	// class is the StorageClass of the claim; nil if it does not exist.
	class *storagev1.StorageClass
	// pods has the pods that mount the claim and have not ended, sorted by name.
	pods []corev1.Pod
	// unended has the pods that were deleted by force and may still write to the volume.
	unended []unendedPod
	// warning is the last warning of a provisioner about the claim, and refusal the error of a write that the API server
	// refused; empty if there is none.
	warning, refusal string
}

func (r *Reconciler) observe(ctx context.Context, shadow *v1alpha1.ShadowVolumeClaim) (*observed, error) {
	o := &observed{shadow: shadow, namespace: &corev1.Namespace{}}
	key := client.ObjectKeyFromObject(shadow)
	err := r.Client.Get(ctx, client.ObjectKey{Name: shadow.Namespace}, o.namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of shadow volume claim %s: %w", key, err)
	}
	if o.claim, err = claimOf(ctx, r.Client, key); err != nil {
		return nil, err
	}
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: shadow.Spec.StorageClassName}, class); err == nil {
		o.class = class
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading storage class %s: %w", shadow.Spec.StorageClassName, err)
	}
	var pvs corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &pvs, client.MatchingFields{kit.IndexClaimRef: key.String()}); err != nil {
		return nil, fmt.Errorf("listing the volumes of claim %s: %w", key, err)
	}
	o.pv = o.volumeOf(pvs.Items)
	o.prepared = preparedVolume(pvs.Items)
	if o.claim == nil && (o.wasBound() || !shadow.DeletionTimestamp.IsZero()) {
		// The cache may have received the volume or the deletion before it received the claim.
		if o.claim, err = claimOf(ctx, r.Live, key); err != nil {
			return nil, err
		}
		o.pv = o.volumeOf(pvs.Items)
	}
	if o.pods, err = podsOf(ctx, r.Client, key); err != nil {
		return nil, err
	}
	return o, nil
}

// claimOf returns a claim, or nil if it does not exist.
func claimOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := reader.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading claim %s: %w", key, err)
	}
	return claim, nil
}

// keep creates and expands the claim, retains its volume and updates the status. It returns the time after which to
// reconcile again, or zero.
func (r *Reconciler) keep(ctx context.Context, o *observed) (time.Duration, error) {
	if !isRemote(o.namespace) {
		return 0, r.report(ctx, o)
	}
	if !controllerutil.ContainsFinalizer(o.shadow, v1alpha1.Finalizer) {
		wanted := o.shadow.DeepCopy()
		controllerutil.AddFinalizer(wanted, v1alpha1.Finalizer)
		_, err := kit.Commit(ctx, r.Client, o.shadow, wanted)
		return 0, client.IgnoreNotFound(err)
	}
	var after time.Duration
	if o.creatable() {
		if err := r.create(ctx, o); err != nil {
			return 0, err
		}
	}
	if o.own() {
		if err := r.retain(ctx, o); err != nil {
			return 0, err
		}
		if err := r.resize(ctx, o); err != nil {
			return 0, err
		}
		if err := r.recordVanished(ctx, o); err != nil {
			return 0, err
		}
		if o.provisioning() {
			age := r.Clock.Since(o.claim.CreationTimestamp.Time)
			var err error
			// Events of this controller about the claim are not warnings of a provisioner.
			if o.warning, after, err = kit.ProvisioningWarning(ctx, r.Client, o.claim, age, Name); err != nil {
				return 0, err
			}
		}
	}
	if o.refusal != "" {
		after = refusalRetry
	}
	if o.shadow.Spec.Fence != "" && len(o.unended) > 0 {
		after = fenceCheck
	}
	return after, r.report(ctx, o)
}

// create creates the claim. If the API server refuses it, the error is set in observed.refusal for the status.
func (r *Reconciler) create(ctx context.Context, o *observed) error {
	claim := claimFor(o.shadow, o.namespace)
	// Kubernetes does not provision a volume for a claim that names one.
	claim.Spec.VolumeName = o.prepared
	err := r.Client.Create(ctx, claim)
	switch {
	case err == nil:
		o.claim = claim
	case apierrors.IsAlreadyExists(err):
		// The cache has not received the claim yet.
		found := &corev1.PersistentVolumeClaim{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(claim), found); err != nil {
			return fmt.Errorf("reading claim %s: %w", client.ObjectKeyFromObject(claim), err)
		}
		o.claim = found
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		o.refusal = "The remote namespace is being deleted."
	case remote.Refused(err):
		o.refusal = remote.Refusal(err, remote.MaxText)
	default:
		return fmt.Errorf("creating claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

// retain sets the reclaim policy of the volume to Retain, and records the earlier one in an annotation.
func (r *Reconciler) retain(ctx context.Context, o *observed) error {
	if o.pv == nil {
		return nil
	}
	wanted := retained(o.pv, o.namespace.Labels[v1alpha1.LabelForeignCluster])
	if _, err := kit.Commit(ctx, r.Client, o.pv, wanted); err != nil {
		return fmt.Errorf("retaining the volume of claim %s: %w", client.ObjectKeyFromObject(o.shadow), err)
	}
	o.pv = wanted
	return nil
}

// resize updates the size that the claim requests to the size of the ShadowVolumeClaim. If the API server refuses it,
// the error is set in observed.refusal for the status.
func (r *Reconciler) resize(ctx context.Context, o *observed) error {
	if o.claim.Status.Phase != corev1.ClaimBound || !o.claim.DeletionTimestamp.IsZero() ||
		o.shadow.Spec.Storage.Cmp(o.claim.Spec.Resources.Requests[corev1.ResourceStorage]) == 0 {
		return nil
	}
	wanted := o.claim.DeepCopy()
	wanted.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: o.shadow.Spec.Storage}
	_, err := kit.Commit(ctx, r.Client, o.claim, wanted)
	if remote.Refused(err) {
		o.refusal = remote.Text(err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("resizing claim %s: %w", client.ObjectKeyFromObject(o.shadow), err)
	}
	o.claim.Spec.Resources.Requests = wanted.Spec.Resources.Requests
	return nil
}

// report updates the status if it changed, and records an event if the reason of VolumeBound changed to a failure.
func (r *Reconciler) report(ctx context.Context, o *observed) error {
	if err := r.confirmFence(ctx, o); err != nil {
		return err
	}
	wanted := o.shadow.DeepCopy()
	wanted.Status = o.status(r.Clock.Now())
	r.recordEvents(o.shadow, wanted)
	_, err := kit.Commit(ctx, r.Client, o.shadow, wanted)
	return client.IgnoreNotFound(err)
}
