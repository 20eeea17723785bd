// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/remote"
)

// topologyPrefix is the prefix of the node labels in the node affinity of a volume on a virtual node that represents
// one node of the provider.
const topologyPrefix = "topology.kubernetes.io/"

// Reasons of the condition VolumeBound of a ShadowVolumeClaim whose StorageClass provisions volumes immediately, before
// the first pod.
const (
	shadowProvisioning       = "Provisioning"
	shadowProvisioningFailed = "ProvisioningFailed"
)

// provisionRemotely creates the ShadowVolumeClaim of a claim on the provider that the node represents, and the local
// PersistentVolume after the provider has accepted the ShadowVolumeClaim. If the node cannot be used, it calls giveUp.
func (p *Provisioner) provisionRemotely(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node,
) (ctrl.Result, error) {
	virtualNode, err := p.virtualNode(ctx, node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if virtualNode == nil {
		return p.giveUp(ctx, claim, refuse("Node %s does not represent a provider any more.", node.Name))
	}
	if claim.Spec.VolumeAttributesClassName != nil {
		return p.giveUp(ctx, claim, refuse("spec.volumeAttributesClassName is not supported on a provider."))
	}
	cluster := naming.ForeignClusterOf(virtualNode.Namespace)
	namespace, err := p.remoteNamespace(ctx, cluster, claim.Namespace)
	var refused *refusal
	if errors.As(err, &refused) {
		return p.giveUp(ctx, claim, refused)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	remoteClass, err := volume.RemoteClass(claim, class.Parameters[v1alpha1.ParameterLocalStorageClass],
		virtualNode.Status.StorageClasses)
	if err != nil {
		return p.giveUp(ctx, claim, refuse("%s: %s.", cluster, err))
	}
	if err := p.discardIntermediate(ctx, claim); err != nil {
		return ctrl.Result{}, err
	}
	at := place{cluster, namespace}
	if err := p.Shadows.Watch(at); err != nil {
		return ctrl.Result{}, err
	}
	wanted := p.shadowClaim(claim, remoteClass, virtualNode.Spec.ClusterID)
	accepted, _ := p.Shadows.cached(at, wanted.Name)
	if accepted != nil && accepted.Spec.StorageClassName != remoteClass &&
		accepted.Status.Phase != v1alpha1.ShadowVolumeClaimBound {
		return p.replaceClass(ctx, claim, at, accepted)
	}
	if accepted != nil && p.waitsFor(claim, accepted, cluster) {
		return ctrl.Result{}, nil
	}
	if reserved, err := p.reserved(ctx, claim); err != nil || reserved {
		return ctrl.Result{}, err
	}
	if accepted == nil {
		p.notices.record(p.Events, claim, corev1.EventTypeNormal, ReasonProvisioning,
			"Provisioning a volume of StorageClass %s on %s.", remoteClass, cluster)
		accepted, err = p.Shadows.create(ctx, at, wanted)
		if err != nil {
			return p.notAccepted(ctx, claim, cluster, err)
		}
		if p.waitsFor(claim, accepted, cluster) {
			return ctrl.Result{}, nil
		}
	}
	if accepted.Status.Phase == v1alpha1.ShadowVolumeClaimLost {
		// sweep deletes this ShadowVolumeClaim when the node is no longer selected.
		return p.giveUp(ctx, claim, refuse(
			"Claim %s in namespace %s of %s was deleted by the provider: "+
				"its administrator must delete the claim's PersistentVolume before it can be created again.",
			accepted.Name, accepted.Namespace, cluster))
	}
	p.refusals.DeleteEntry(string(claim.UID))
	return ctrl.Result{}, p.createVolume(ctx, claim, class, accepted, virtualNode, node)
}

// replaceClass deletes a ShadowVolumeClaim that is not bound and has another StorageClass than the offer or the claim
// now specifies. The event of its deletion enqueues the claim, for which a new one is created.
func (p *Provisioner) replaceClass(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, at place, accepted *v1alpha1.ShadowVolumeClaim,
) (ctrl.Result, error) {
	if reserved, err := p.reserved(ctx, claim); err != nil || reserved {
		return ctrl.Result{}, err
	}
	_, err := p.Shadows.remove(ctx, at, accepted.Name, v1alpha1.VolumeDeletionDelete)
	if err != nil {
		return p.notAccepted(ctx, claim, at.cluster, err)
	}
	return ctrl.Result{RequeueAfter: retryDelay}, nil
}

// shadowClaim returns the ShadowVolumeClaim to create for a user's claim. class is the StorageClass on the provider,
// and destination the cluster id of the provider.
func (p *Provisioner) shadowClaim(
	claim *corev1.PersistentVolumeClaim, class, destination string,
) *v1alpha1.ShadowVolumeClaim {
	return &v1alpha1.ShadowVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:   volume.RemoteClaimName(claim.Name, volume.VolumeName(claim.UID)),
			Labels: map[string]string{v1alpha1.LabelOrigin: p.ClusterID, v1alpha1.LabelDestination: destination},
			Annotations: map[string]string{
				v1alpha1.AnnotationOriginNamespace: claim.Namespace, volume.AnnotationOriginClaim: claim.Name,
			},
		},
		Spec: v1alpha1.ShadowVolumeClaimSpec{
			StorageClassName: class, AccessModes: claim.Spec.AccessModes,
			Storage: claim.Spec.Resources.Requests[corev1.ResourceStorage], DeletionPolicy: v1alpha1.VolumeDeletionRetain,
		},
	}
}

// notAccepted handles err, the failure of a request to a provider about a claim. If the provider refused the claim, it
// calls giveUp, so that the scheduler selects another node; if the reason is the quota, it publishes a lower capacity
// of the provider before that. If the provider did not respond, it returns retryDelay.
func (p *Provisioner) notAccepted(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, cluster string, err error,
) (ctrl.Result, error) {
	answer := strings.TrimSuffix(remote.Describe(err), ".")
	switch {
	case apierrors.HasStatusCause(err, v1alpha1.CauseStorageExceeded):
		request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if err := p.Capacity.Lower(ctx, cluster, request.Value()); err != nil {
			return ctrl.Result{}, err
		}
		return p.giveUp(ctx, claim, refuse("%s has no room: %s.", cluster, answer))
	case remote.Refused(err), apierrors.IsNotFound(err):
		return p.giveUp(ctx, claim, refuse("%s refuses the claim: %s.", cluster, answer))
	case apierrors.IsConflict(err):
		return ctrl.Result{}, err
	}
	p.notices.warn(p.Events, claim, ReasonProvisioningFailed,
		"The request to %s failed and is retried: %s.", cluster, answer)
	return ctrl.Result{RequeueAfter: retryDelay}, nil
}

// waitsFor reports whether the volume of a ShadowVolumeClaim cannot be used yet, because the ShadowVolumeClaim is being
// deleted, the provider has not processed it, or its StorageClass provisions volumes immediately and the volume does
// not exist yet.
func (p *Provisioner) waitsFor(
	claim *corev1.PersistentVolumeClaim, accepted *v1alpha1.ShadowVolumeClaim, cluster string,
) bool {
	if !accepted.DeletionTimestamp.IsZero() {
		return true
	}
	switch accepted.Status.Phase {
	case v1alpha1.ShadowVolumeClaimBound, v1alpha1.ShadowVolumeClaimLost:
		return false
	case v1alpha1.ShadowVolumeClaimPending:
	default:
		return true
	}
	condition := meta.FindStatusCondition(accepted.Status.Conditions, v1alpha1.ConditionVolumeBound)
	if condition == nil {
		return false
	}
	if condition.Reason == shadowProvisioningFailed {
		p.notices.warn(p.Events, claim, ReasonProvisioningFailed, "%s: %s", cluster, remote.Text(condition.Message))
	}
	return condition.Reason == shadowProvisioning || condition.Reason == shadowProvisioningFailed
}

// createVolume creates the PersistentVolume of an accepted ShadowVolumeClaim, bound to the user's claim.
func (p *Provisioner) createVolume(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	accepted *v1alpha1.ShadowVolumeClaim, virtualNode *v1alpha1.VirtualNode, node *corev1.Node,
) error {
	pv := remoteVolume(claim, class, accepted, virtualNode, node)
	err := p.Client.Create(ctx, pv)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating volume %s: %w", pv.Name, err)
	}
	p.notices.record(p.Events, claim, corev1.EventTypeNormal, ReasonProvisioningSucceeded,
		"Provisioned volume %s of StorageClass %s on %s.", pv.Name, accepted.Spec.StorageClassName,
		naming.ForeignClusterOf(virtualNode.Namespace))
	return nil
}

// remoteVolume returns the local PersistentVolume of a ShadowVolumeClaim. An annotation has the name of the provider's
// StorageClass.
func remoteVolume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, accepted *v1alpha1.ShadowVolumeClaim,
	virtualNode *v1alpha1.VirtualNode, node *corev1.Node,
) *corev1.PersistentVolume {
	var topology map[string]string
	if virtualNode.Spec.OfferedNode != "" {
		topology = map[string]string{}
		for key, value := range node.Labels {
			if strings.HasPrefix(key, topologyPrefix) {
				topology[key] = value
			}
		}
	}
	capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if actual := accepted.Status.Capacity; actual != nil && actual.Cmp(capacity) > 0 {
		capacity = *actual
	}
	clusterID := virtualNode.Spec.ClusterID
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volume.VolumeName(claim.UID), Finalizers: []string{volume.Finalizer},
			Annotations: map[string]string{
				volume.AnnotationProvisionedBy: v1alpha1.StorageProvisioner,
				volume.AnnotationStorageClass:  accepted.Spec.StorageClassName,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: volume.RemoteSource(volume.Handle{
				ClusterID: clusterID, Namespace: accepted.Namespace, Claim: accepted.Name,
			}),
			NodeAffinity:                  volume.RemoteAffinity(clusterID, topology),
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity.String())},
			ClaimRef:                      claimReference(claim),
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: reclaimPolicy(class),
		},
	}
}
