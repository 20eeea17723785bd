// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition VolumeBound of a ShadowVolumeClaim.
const (
	// reasonBound means that the claim has its volume.
	reasonBound = "Bound"
	// reasonWaitForFirstConsumer means that the volume is created with the first pod. Start a pod.
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	// reasonProvisioning means that the provisioner creates the volume.
	reasonProvisioning = "Provisioning"
	// reasonProvisioningFailed means that the provisioner cannot create the volume, or the class does not exist. Check
	// the provisioner.
	reasonProvisioningFailed = "ProvisioningFailed"
	reasonRefused            = v1alpha1.ReasonProviderRefused
	// reasonLost means that the claim or its volume was deleted, and is not replaced by an empty volume. Bind
	// the volume again: docs/volumes.md#a-claim-that-was-deleted-by-hand.
	reasonLost = "Lost"
	// reasonConflict means that a claim of this name exists that was not created for a ShadowVolumeClaim; that
	// claim is not changed. Delete one of the two.
	reasonConflict = "NameConflict"
	// reasonNotRemote means that the namespace lost its labels. Restore the labels of the namespace.
	reasonNotRemote = "NotARemoteNamespace"
)

// Reasons of the condition VolumeResized of a ShadowVolumeClaim.
const (
	// reasonResized means that the volume has the requested size.
	reasonResized = "Resized"
	// reasonResizing means that the provisioner expands the volume.
	reasonResizing = "Resizing"
	// reasonWaitForPod means that the file system is expanded when a pod mounts the volume. Start a pod.
	reasonWaitForPod = "FileSystemResizePending"
	// reasonResizeFailed means that the provisioner cannot expand the volume; the message is the provisioner's.
	// Request a smaller size that is still larger than the capacity.
	reasonResizeFailed = "ResizeFailed"
	// reasonResizeRefused means that the class allows no expansion, or the API refuses the size. Have the administrator
	// of the provider allow the expansion, or request a smaller size that is still larger than the capacity.
	reasonResizeRefused = "ResizeRefused"
)

// maxPods is the maximum number of pods in status.pods, and in status.fence.users.
const maxPods = 16

// verdict has the values of a condition, and for the condition VolumeBound also the phase of the ShadowVolumeClaim.
type verdict struct {
	phase           v1alpha1.ShadowVolumeClaimPhase
	status          metav1.ConditionStatus
	reason, message string
}

// status returns the new status of the ShadowVolumeClaim.
func (o *observed) status(now time.Time) v1alpha1.ShadowVolumeClaimStatus {
	status := *o.shadow.Status.DeepCopy()
	status.ObservedGeneration = o.shadow.Generation
	bound := o.bound()
	status.Phase = bound.phase
	if bound.phase == v1alpha1.ShadowVolumeClaimBound {
		status.VolumeName = o.claim.Spec.VolumeName
		status.Capacity = ptr.To(o.claim.Status.Capacity[corev1.ResourceStorage])
		status.Allocated = o.allocated()
		o.setCondition(&status, v1alpha1.ConditionVolumeResized, o.resized(), now)
	}
	o.setCondition(&status, v1alpha1.ConditionVolumeBound, bound, now)
	status.Pods = nil
	for i := range o.pods {
		status.Pods = append(status.Pods, o.pods[i].Name)
	}
	status.Pods = bounded(status.Pods)
	status.Fence = o.fence()
	return status
}

// allocated returns the size that the provider reserves for a bound claim while it expands the volume; nil if that is
// not larger than the capacity.
func (o *observed) allocated() *resource.Quantity {
	largest := o.claim.Status.Capacity[corev1.ResourceStorage]
	var beyond *resource.Quantity
	for _, list := range []corev1.ResourceList{o.claim.Spec.Resources.Requests, o.claim.Status.AllocatedResources} {
		if size, ok := list[corev1.ResourceStorage]; ok && size.Cmp(largest) > 0 {
			largest, beyond = size, &size
		}
	}
	return beyond
}

func bounded(names []string) []string { return names[:min(len(names), maxPods)] }

func (o *observed) setCondition(status *v1alpha1.ShadowVolumeClaimStatus, kind string, v verdict, now time.Time) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: v.message,
		ObservedGeneration: o.shadow.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// bound returns the condition VolumeBound and the phase.
func (o *observed) bound() verdict {
	pending := func(reason, message string) verdict {
		return verdict{v1alpha1.ShadowVolumeClaimPending, metav1.ConditionFalse, reason, message}
	}
	lost := func(message string) verdict {
		return verdict{v1alpha1.ShadowVolumeClaimLost, metav1.ConditionFalse, reasonLost, message}
	}
	// Without a claim, the phase is empty, so that the consumer does not create a volume.
	refused := func(reason, message string) verdict {
		return verdict{"", metav1.ConditionFalse, reason, message}
	}
	reported := o.shadow.Status.VolumeName
	switch {
	case !isRemote(o.namespace):
		return refused(reasonNotRemote, "The namespace is not a remote namespace of a consumer; no claim is created in it.")
	case o.claim == nil && o.pv != nil:
		return lost(fmt.Sprintf("The claim was deleted on the provider; its data is kept on PersistentVolume %s. "+
			"To bind the volume again, remove uid and resourceVersion from spec.claimRef of the PersistentVolume.", o.pv.Name))
	case o.claim == nil && o.wasBound():
		return lost("The claim and its volume were deleted on the provider.")
	case o.claim == nil:
		return refused(reasonRefused, "The provider refused the claim: "+o.refusal)
	case !o.own() && o.wasBound():
		return lost("The claim was deleted on the provider, and another one has its name.")
	case !o.own():
		return refused(reasonConflict, "The provider has a PersistentVolumeClaim of this name that was not created for a "+
			"ShadowVolumeClaim; that claim is not changed. Delete that claim, or choose another name.")
	case o.claim.Status.Phase == corev1.ClaimLost:
		return lost("The volume of the claim was deleted on the provider.")
	case reported != "" && o.claim.Spec.VolumeName != reported:
		return lost(fmt.Sprintf("The claim no longer has its volume %s on the provider.", reported))
	case o.claim.Status.Phase == corev1.ClaimBound:
		return verdict{v1alpha1.ShadowVolumeClaimBound, metav1.ConditionTrue, reasonBound, "The claim is bound to a volume."}
	case o.class == nil:
		return pending(reasonProvisioningFailed,
			fmt.Sprintf("The provider has no StorageClass %s.", o.shadow.Spec.StorageClassName))
	case o.claim.Spec.VolumeName == "" && o.waitsForPod():
		return pending(reasonWaitForFirstConsumer, "The volume is created with the first pod that mounts the claim.")
	case o.warning != "":
		return pending(reasonProvisioningFailed, o.warning)
	}
	return pending(reasonProvisioning, "The provider creates the volume.")
}

// resized returns the condition VolumeResized of a bound claim.
func (o *observed) resized() verdict {
	capacity := o.claim.Status.Capacity[corev1.ResourceStorage]
	no := func(reason, message string) verdict {
		return verdict{status: metav1.ConditionFalse, reason: reason, message: message}
	}
	failure := resizeFailure(o.claim)
	switch {
	case o.refusal != "":
		return no(reasonResizeRefused, "The provider refused the size: "+o.refusal)
	case capacity.Cmp(o.shadow.Spec.Storage) >= 0:
		return verdict{status: metav1.ConditionTrue, reason: reasonResized, message: "The volume has the requested size."}
	case failure != "":
		return no(reasonResizeFailed, failure)
	case claimCondition(o.claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil:
		return no(reasonWaitForPod, "The file system is expanded when a pod mounts the volume.")
	}
	return no(reasonResizing, "The provider expands the volume.")
}

// resizeFailure returns the message about a failed expansion; empty if none failed.
func resizeFailure(claim *corev1.PersistentVolumeClaim) string {
	for _, kind := range []corev1.PersistentVolumeClaimConditionType{
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
	} {
		if condition := claimCondition(claim, kind); condition != nil {
			return remote.Text(condition.Message)
		}
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return "The provider's storage does not support this size."
	}
	return ""
}

func claimCondition(claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType,
) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// recordEvents records an event if the reason of the condition VolumeBound changed to Lost, NameConflict,
// ProviderRefused or ProvisioningFailed.
func (r *Reconciler) recordEvents(old, current *v1alpha1.ShadowVolumeClaim) {
	before := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionVolumeBound)
	after := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionVolumeBound)
	if after == nil || before != nil && before.Reason == after.Reason {
		return
	}
	switch after.Reason {
	case reasonLost, reasonConflict, reasonRefused, reasonProvisioningFailed:
		r.Events.Event(current, corev1.EventTypeWarning, after.Reason, after.Message)
	}
}
