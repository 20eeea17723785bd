// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

// Reasons of the condition Ready of a VirtualVolume.
const (
	// ReasonVolumeBound means that the claim is bound, and the cluster that stores the data answers.
	ReasonVolumeBound = "VolumeBound"
	// ReasonWaitingForFirstPod means that no pod mounts the claim yet. Start a pod.
	ReasonWaitingForFirstPod = "WaitingForFirstConsumer"
	// ReasonVolumeProvisioning means that the volume is being provisioned. See the events of the claim.
	ReasonVolumeProvisioning = "Provisioning"
	// ReasonVolumeLost means that the volume of a bound claim is gone. See
	// docs/volumes.md#a-claim-that-was-deleted-by-hand.
	ReasonVolumeLost = "VolumeLost"
	// ReasonVolumeMoving means that no pod can mount the claim until the move ends. See docs/moving-volumes.md.
	ReasonVolumeMoving = "VolumeMoving"
	// ReasonProviderUnreachable means that the cluster that stores the data does not answer. See the conditions of the
	// ForeignCluster.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonProviderNotPeered means that the peering with the cluster that stores the data has ended, or that cluster
	// revoked the identity of this cluster. Peer with that cluster again.
	ReasonProviderNotPeered = "ProviderNotPeered"
)

// maxMountedBy is the maximum number of pods in status.mountedBy.
const maxMountedBy = 16

// observation is the state of a claim and its data, from which the status of its VirtualVolume is computed.
type observation struct {
	claim *corev1.PersistentVolumeClaim
	ownID string
	// pods has the pods that mount the claim and have not finished, sorted by name.
	pods []*corev1.Pod
	// refusal is the error for a field of the claim that virtual StorageClasses do not support, or nil.
	refusal error
	// volume is the PersistentVolume of the claim; nil if there is none.
	volume *corev1.PersistentVolume
	// handle identifies the ShadowVolumeClaim that stores the data; nil if the data is local.
	handle *volume.Handle
	// cluster is the provider that stores the data; nil if the data is local or the provider has no ForeignCluster.
	cluster *v1alpha1.ForeignCluster
	// kept is the cached ShadowVolumeClaim, or nil.
	kept *v1alpha1.ShadowVolumeClaim
	// vanished is true if the provider lost the ShadowVolumeClaim.
	vanished bool
	// again is the time after which to reconcile the claim again; zero means that only an event does.
	again time.Duration
}

// into writes the observation to the status of a VirtualVolume, except its fields about moves. generation is the
// generation of the VirtualVolume, for the condition.
func (o *observation) into(status *v1alpha1.VirtualVolumeStatus, generation int64) {
	isMoving := status.Move != nil && running(status.Move)
	status.Phase = o.phase(isMoving)
	status.Location = o.location()
	status.Capacity = o.capacity(status)
	status.MountedBy = o.mountedBy()
	condition := o.ready(status.Phase)
	condition.ObservedGeneration = generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

func (o *observation) phase(isMoving bool) v1alpha1.VirtualVolumePhase {
	switch {
	case isMoving:
		return v1alpha1.VirtualVolumeMoving
	case o.claim.Status.Phase == corev1.ClaimLost, o.kept != nil && o.kept.Status.Phase == v1alpha1.ShadowVolumeClaimLost:
		return v1alpha1.VirtualVolumeLost
	case o.claim.Status.Phase == corev1.ClaimBound:
		return v1alpha1.VirtualVolumeBound
	case o.claim.Annotations[volume.AnnotationSelectedNode] != "", o.claim.Spec.VolumeName != "":
		return v1alpha1.VirtualVolumeProvisioning
	}
	return v1alpha1.VirtualVolumePending
}

// location returns the location of the data; nil without a volume. ClusterName is empty if the provider has no
// ForeignCluster.
func (o *observation) location() *v1alpha1.VolumeLocation {
	if o.volume == nil {
		return nil
	}
	location := &v1alpha1.VolumeLocation{
		ClusterID: o.ownID, VolumeName: o.volume.Name, StorageClassName: o.volume.Annotations[volume.AnnotationStorageClass],
	}
	if o.handle != nil {
		location.ClusterID, location.Namespace, location.ClaimName = o.handle.ClusterID, o.handle.Namespace, o.handle.Claim
		if o.cluster != nil {
			location.ClusterName = o.cluster.Name
		}
	}
	return location
}

// capacity returns the size of the volume. If the quantity in the status has the same value, it returns that quantity,
// so that a different notation causes no update.
func (o *observation) capacity(status *v1alpha1.VirtualVolumeStatus) *resource.Quantity {
	if o.volume == nil {
		return nil
	}
	size := o.volume.Spec.Capacity.Storage()
	if status.Capacity != nil && status.Capacity.Cmp(*size) == 0 {
		return status.Capacity
	}
	return ptr.To(size.DeepCopy())
}

func (o *observation) mountedBy() []string {
	var mounted []string
	for _, pod := range o.pods {
		if pod.Spec.NodeName != "" && len(mounted) < maxMountedBy {
			mounted = append(mounted, pod.Name)
		}
	}
	return mounted
}

// unreachable returns the reason and the message why the provider with the data cannot be reached. Both are empty if it
// can.
func (o *observation) unreachable() (reason, message string) {
	switch {
	case o.handle == nil:
		return "", ""
	case o.cluster == nil || placement.Ending(o.cluster):
		return ReasonProviderNotPeered, fmt.Sprintf(
			"The data is stored on cluster %s, with which this cluster is not peered any more: "+
				"it is available again once the clusters are peered.", o.handle.ClusterID)
	}
	if _, revoked := identity.RevokedSince(o.cluster); revoked {
		return ReasonProviderNotPeered, fmt.Sprintf(
			"The data is stored on %s, which does not accept this cluster's identity any more: "+
				"it is available again once the clusters are peered.", o.cluster.Name)
	}
	for _, condition := range o.cluster.Status.Conditions {
		if condition.Reason == ReasonProviderUnreachable && condition.Status != metav1.ConditionTrue {
			return ReasonProviderUnreachable, fmt.Sprintf("The data is stored on %s, which is unreachable.", o.cluster.Name)
		}
	}
	return "", ""
}

// ready returns the condition Ready of the VirtualVolume.
func (o *observation) ready(phase v1alpha1.VirtualVolumePhase) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionVolumeReady, Status: metav1.ConditionFalse}
	reason, message := o.unreachable()
	switch {
	case phase == v1alpha1.VirtualVolumeLost:
		condition.Reason, condition.Message = ReasonVolumeLost, o.lost()
	case phase == v1alpha1.VirtualVolumeMoving && o.claim.Status.Phase != corev1.ClaimBound:
		condition.Reason = ReasonVolumeMoving
		condition.Message = "The data is being moved. Until the move ends, no pod can mount the claim, " +
			"and the event ClaimMisbound of the claim is expected."
	case o.refusal != nil:
		condition.Reason, condition.Message = ReasonProvisioningFailed, o.refusal.Error()
	case phase == v1alpha1.VirtualVolumePending:
		condition.Reason = ReasonWaitingForFirstPod
		condition.Message = "The node of the first pod that mounts the claim determines the cluster that stores its data."
	case phase == v1alpha1.VirtualVolumeProvisioning:
		condition.Reason = ReasonVolumeProvisioning
		condition.Message = fmt.Sprintf("The volume is being provisioned for node %s: see the events of the claim.",
			o.claim.Annotations[volume.AnnotationSelectedNode])
	case reason != "":
		condition.Reason, condition.Message = reason, message
	case o.vanished:
		condition.Reason = v1alpha1.ReasonShadowVolumeClaimMissing
		condition.Message = fmt.Sprintf("%s has no ShadowVolumeClaim %s in namespace %s any more: "+
			"it is created again, see the events of the claim.", o.cluster.Name, o.handle.Claim, o.handle.Namespace)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, ReasonVolumeBound
	}
	return condition
}

// lost returns the message about a volume that was deleted: the one that the provider reported, if there is one.
func (o *observation) lost() string {
	if o.kept != nil && o.kept.Status.Phase == v1alpha1.ShadowVolumeClaimLost {
		bound := meta.FindStatusCondition(o.kept.Status.Conditions, v1alpha1.ConditionVolumeBound)
		if bound != nil && bound.Message != "" {
			return fmt.Sprintf("%s: %s", o.cluster.Name, bound.Message)
		}
	}
	return "The claim was bound, and its volume was deleted."
}

// waiting returns the pods that are not scheduled, without the movers of a move.
func (o *observation) waiting() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.pods), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" || pod.Labels[volume.LabelMove] != ""
	})
}
