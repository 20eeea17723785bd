// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
)

// annotationBoundByController is set on a PersistentVolume that Kubernetes bound to a claim. When that claim is
// deleted, Kubernetes would clear the volume's claimRef, so that any other claim could be bound to the volume.
const annotationBoundByController = "pv.kubernetes.io/bound-by-controller"

// provisionLocally creates an intermediate claim of a local StorageClass, for which that class's driver provisions a
// volume, and then binds the volume to the user's claim.
func (p *Provisioner) provisionLocally(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (ctrl.Result, error) {
	var classes storagev1.StorageClassList
	if err := p.Client.List(ctx, &classes); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing storage classes: %w", err)
	}
	localStorageClass, err := localClass(claim, class, classes.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	var intermediate corev1.PersistentVolumeClaim
	key := types.NamespacedName{Namespace: p.Namespace, Name: volume.VolumeName(claim.UID)}
	err = p.Client.Get(ctx, key, &intermediate)
	if apierrors.IsNotFound(err) {
		if reserved, err := p.reserved(ctx, claim); err != nil || reserved {
			return ctrl.Result{}, err
		}
		p.notices.record(p.Events, claim, corev1.EventTypeNormal, ReasonProvisioning,
			"Provisioning a volume of StorageClass %s.", localStorageClass.Name)
		err := p.Client.Create(ctx, intermediateClaim(claim, localStorageClass.Name, p.Namespace))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, fmt.Errorf("creating the intermediate claim: %w", err)
		}
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the intermediate claim: %w", err)
	}
	switch selected := intermediate.Annotations[volume.AnnotationSelectedNode]; {
	case !intermediate.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case intermediate.Spec.VolumeName != "":
		return ctrl.Result{}, p.rebind(ctx, claim, class, &intermediate)
	case selected == "":
		// The provisioner removed the selected node, because the volume does not fit there.
		if err := kit.Delete(ctx, p.Client, &intermediate); err != nil {
			return ctrl.Result{}, err
		}
		return p.giveUp(ctx, claim, refuse("The provisioner of StorageClass %s has no room on node %s.",
			localStorageClass.Name, claim.Annotations[volume.AnnotationSelectedNode]))
	case selected != claim.Annotations[volume.AnnotationSelectedNode]:
		wanted := intermediate.DeepCopy()
		wanted.Annotations[volume.AnnotationSelectedNode] = claim.Annotations[volume.AnnotationSelectedNode]
		_, err := kit.Commit(ctx, p.Client, &intermediate, wanted)
		return ctrl.Result{}, err
	}
	return p.relayWarning(ctx, claim, &intermediate)
}

// relayWarning records the provisioner's last warning about an intermediate claim on the user's claim too, because the
// user may not read events in the namespace of the intermediate claim.
func (p *Provisioner) relayWarning(
	ctx context.Context, claim, intermediate *corev1.PersistentVolumeClaim,
) (ctrl.Result, error) {
	age := time.Since(intermediate.CreationTimestamp.Time)
	warning, again, err := kit.ProvisioningWarning(ctx, p.Client, intermediate, age, "")
	if warning != "" {
		p.notices.warn(p.Events, claim, ReasonProvisioningFailed, "StorageClass %s, claim %s in namespace %s: %s",
			*intermediate.Spec.StorageClassName, intermediate.Name, intermediate.Namespace, warning)
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// intermediateClaim returns the claim in Config.Namespace that a local driver provisions a volume for, in place of the
// user's claim.
func intermediateClaim(claim *corev1.PersistentVolumeClaim, class, namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: volume.VolumeName(claim.UID), Namespace: namespace,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			Annotations: map[string]string{
				volume.AnnotationSelectedNode:      claim.Annotations[volume.AnnotationSelectedNode],
				v1alpha1.AnnotationOriginNamespace: claim.Namespace,
				volume.AnnotationOriginClaim:       claim.Name,
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: claim.Spec.AccessModes, Resources: claim.Spec.Resources, VolumeMode: claim.Spec.VolumeMode,
			VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName, StorageClassName: &class,
		},
	}
}

// discardIntermediate deletes the intermediate claim of a user's claim that is now provisioned on a provider.
func (p *Provisioner) discardIntermediate(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	var intermediate corev1.PersistentVolumeClaim
	key := types.NamespacedName{Namespace: p.Namespace, Name: volume.VolumeName(claim.UID)}
	err := p.Client.Get(ctx, key, &intermediate)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the intermediate claim: %w", err)
	}
	return kit.Delete(ctx, p.Client, &intermediate)
}

// originOf returns the name of the user's claim that an intermediate claim was created for, from its annotations.
func originOf(intermediate *corev1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{
		Namespace: intermediate.Annotations[v1alpha1.AnnotationOriginNamespace],
		Name:      intermediate.Annotations[volume.AnnotationOriginClaim],
	}
}

// rebind binds the volume of an intermediate claim to the user's claim. It does so in one patch, so that the claimRef
// of the volume always refers to one of the two claims, and no deletion of the other one deletes the volume.
func (p *Provisioner) rebind(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	intermediate *corev1.PersistentVolumeClaim,
) error {
	var pv corev1.PersistentVolume
	if err := p.Client.Get(ctx, types.NamespacedName{Name: intermediate.Spec.VolumeName}, &pv); err != nil {
		// If the volume is not in the cache yet, its event enqueues the claim.
		return client.IgnoreNotFound(err)
	}
	reference := pv.Spec.ClaimRef
	if reference == nil || reference.UID != intermediate.UID || intermediate.Status.Phase != corev1.ClaimBound {
		return nil
	}
	if reserved, err := p.reserved(ctx, claim); err != nil || reserved {
		return err
	}
	wanted := rebound(&pv, claim, reclaimPolicy(class))
	if _, err := kit.Commit(ctx, p.Client, &pv, wanted); err != nil {
		return fmt.Errorf("binding volume %s to the claim: %w", pv.Name, err)
	}
	p.notices.record(p.Events, claim, corev1.EventTypeNormal, ReasonProvisioningSucceeded,
		"Provisioned volume %s of StorageClass %s.", pv.Name, pv.Spec.StorageClassName)
	return nil
}

// rebound returns a volume bound to a claim of a virtual StorageClass. Annotations record the StorageClass that
// provisioned the volume, and policy, the reclaim policy that Releaser sets after the claim is deleted. Until then, the
// reclaim policy is Retain.
func rebound(
	pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, policy corev1.PersistentVolumeReclaimPolicy,
) *corev1.PersistentVolume {
	wanted := pv.DeepCopy()
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationStorageClass, pv.Spec.StorageClassName)
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, volume.AnnotationReclaimPolicy, string(policy))
	delete(wanted.Annotations, annotationBoundByController)
	controllerutil.AddFinalizer(wanted, volume.Finalizer)
	wanted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	wanted.Spec.StorageClassName = *claim.Spec.StorageClassName
	wanted.Spec.ClaimRef = claimReference(claim)
	return wanted
}

func claimReference(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
}
