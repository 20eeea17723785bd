// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
)

// Reasons of the condition VolumeResized of a ShadowVolumeClaim while its expansion is in progress.
const (
	shadowResizing          = "Resizing"
	shadowFileSystemPending = "FileSystemResizePending"
)

// Reasons of events on claims whose volumes are expanded.
const (
	// ReasonVolumeResizeSuccessful means that the volume on a provider has the requested size.
	ReasonVolumeResizeSuccessful = "VolumeResizeSuccessful"
	// ReasonVolumeResizeFailed means that the provider, or the StorageClass of a local volume, refuses the size. Read the
	// message; for a volume on a provider, the condition ControllerResizeError of the claim has it, too.
	ReasonVolumeResizeFailed = "VolumeResizeFailed"
)

// resizeDelay is the time after which a refused expansion is requested again, since quota may be released meanwhile.
const resizeDelay = time.Minute

// Expander expands the volumes of claims on providers to the size that the claims request. CSI drivers expand local
// volumes.
type Expander struct {
	*Config
	Clock clock.PassiveClock

	notices notices
}

// Reconcile expands the volume of one claim. It changes the size of the ShadowVolumeClaim first, then the capacity of
// the PersistentVolume, and last the capacity in the status of the claim.
func (e *Expander) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := e.Client.Get(ctx, request.NamespacedName, &claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Status.Phase != corev1.ClaimBound || !claim.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var pv corev1.PersistentVolume
	if err := e.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &pv); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return ctrl.Result{}, nil
	}
	handle, isRemote, err := volume.HandleOf(&pv)
	switch {
	case err != nil:
		return ctrl.Result{}, nil
	case !isRemote:
		return ctrl.Result{}, e.explainLocal(ctx, &claim, &pv)
	}
	return unlessTerminating(e.expandRemote(ctx, &claim, &pv, handle))
}

// explainLocal records a warning if a claim requests a larger local volume and the volume's own StorageClass does not
// allow expansion. The API server admits the request, because the virtual class allows expansion.
func (e *Expander) explainLocal(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume,
) error {
	name, virtual := pv.Annotations[volume.AnnotationStorageClass]
	if !virtual || requested(claim).Cmp(*pv.Spec.Capacity.Storage()) <= 0 {
		return nil
	}
	var class storagev1.StorageClass
	if err := e.Client.Get(ctx, types.NamespacedName{Name: name}, &class); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ptr.Deref(class.AllowVolumeExpansion, false) {
		e.notices.warn(e.Events, claim, ReasonVolumeResizeFailed,
			"StorageClass %s of the volume does not allow expansion: move the data to get a larger volume.", name)
	}
	return nil
}

func requested(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	return ptr.To(claim.Spec.Resources.Requests[corev1.ResourceStorage])
}

// expandRemote expands a volume on a provider, and reports its size in the PersistentVolume and the claim.
func (e *Expander) expandRemote(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, handle volume.Handle,
) (ctrl.Result, error) {
	cluster, err := e.foreignCluster(ctx, handle.ClusterID)
	if err != nil || cluster == nil {
		return ctrl.Result{}, err
	}
	at := place{cluster.Name, handle.Namespace}
	if err := e.Shadows.Watch(at); err != nil {
		return ctrl.Result{}, err
	}
	kept, _ := e.Shadows.cached(at, handle.Claim)
	if kept == nil {
		// The watch enqueues the claim when the provider is connected.
		return ctrl.Result{}, nil
	}
	if problem, result, err := e.request(ctx, claim, kept, at); err != nil || !result.IsZero() || problem != nil {
		return result, errors.Join(err, e.report(ctx, claim, pv, problem))
	}
	if actual := kept.Status.Capacity; actual != nil && actual.Cmp(*pv.Spec.Capacity.Storage()) > 0 {
		wanted := pv.DeepCopy()
		wanted.Spec.Capacity[corev1.ResourceStorage] = *actual
		if _, err := kit.Commit(ctx, e.Client, pv, wanted); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("setting the capacity of volume %s: %w", pv.Name, err)
		}
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, e.report(ctx, claim, pv, resizeProblem(kept, cluster.Name))
}

// problem is the reason and the message why a volume is not expanded.
type problem struct{ reason, message string }

// request updates the size of the ShadowVolumeClaim to the size that the claim requests. It does not request a smaller
// size once the volume is expanded. If the provider refuses the size or does not respond, it returns a problem and the
// delay until the retry. It fails only with a conflict, which is retried at once.
func (e *Expander) request(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, kept *v1alpha1.ShadowVolumeClaim, at place,
) (*problem, ctrl.Result, error) {
	size := requested(claim)
	if kept.Spec.Storage.Cmp(*size) == 0 ||
		kept.Status.Capacity != nil && kept.Spec.Storage.Cmp(*size) > 0 && kept.Status.Capacity.Cmp(kept.Spec.Storage) >= 0 {
		return nil, ctrl.Result{}, nil
	}
	_, err := e.Shadows.change(ctx, at, kept.Name, func(spec *v1alpha1.ShadowVolumeClaimSpec) { spec.Storage = *size })
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil, ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return nil, ctrl.Result{}, err
	}
	message := fmt.Sprintf("%s: %s.", at.cluster, strings.TrimSuffix(remote.Describe(err), "."))
	e.notices.warn(e.Events, claim, ReasonVolumeResizeFailed, "%s", message)
	return &problem{ReasonVolumeResizeFailed, message}, ctrl.Result{RequeueAfter: resizeDelay}, nil
}

// resizeProblem returns why the provider did not expand the volume, from the condition VolumeResized of the
// ShadowVolumeClaim; nil if the expansion is in progress or complete. cluster is the name of the provider for the
// message.
func resizeProblem(kept *v1alpha1.ShadowVolumeClaim, cluster string) *problem {
	condition := meta.FindStatusCondition(kept.Status.Conditions, v1alpha1.ConditionVolumeResized)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil
	}
	switch condition.Reason {
	case shadowResizing, shadowFileSystemPending:
		return nil
	}
	return &problem{remote.Text(condition.Reason), fmt.Sprintf("%s: %s", cluster, remote.Text(condition.Message))}
}

// report writes the capacity of the volume and the progress of its expansion to the status of the claim. failed is the
// reason why the volume is not expanded; nil means that the expansion is in progress or complete.
func (e *Expander) report(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, failed *problem,
) error {
	wanted := claim.DeepCopy()
	size := *pv.Spec.Capacity.Storage()
	grown := claim.Status.Capacity.Storage().Cmp(size) < 0
	if grown {
		if wanted.Status.Capacity == nil {
			wanted.Status.Capacity = corev1.ResourceList{}
		}
		wanted.Status.Capacity[corev1.ResourceStorage] = size
	}
	pending := requested(claim).Cmp(size) > 0
	e.setCondition(&wanted.Status, corev1.PersistentVolumeClaimResizing, pending && failed == nil,
		"Resizing", "The provider expands the volume.")
	if failed == nil {
		failed = &problem{}
	}
	e.setCondition(&wanted.Status, corev1.PersistentVolumeClaimControllerResizeError,
		pending && failed.reason != "", failed.reason, failed.message)
	if pending && failed.reason != "" {
		e.notices.warn(e.Events, claim, ReasonVolumeResizeFailed, "%s", failed.message)
	}
	if _, err := kit.Commit(ctx, e.Client, claim, wanted); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reporting the expansion of the claim: %w", err)
	}
	if grown && !pending {
		e.notices.record(e.Events, claim, corev1.EventTypeNormal, ReasonVolumeResizeSuccessful,
			"The volume was expanded to %s.", &size)
	}
	return nil
}

// setCondition sets a condition of a claim to True, or removes it if isTrue is false.
func (e *Expander) setCondition(
	status *corev1.PersistentVolumeClaimStatus, kind corev1.PersistentVolumeClaimConditionType, isTrue bool,
	reason, message string,
) {
	index := slices.IndexFunc(status.Conditions, func(condition corev1.PersistentVolumeClaimCondition) bool {
		return condition.Type == kind
	})
	switch {
	case !isTrue && index >= 0:
		status.Conditions = slices.Delete(status.Conditions, index, index+1)
	case !isTrue:
	case index < 0:
		status.Conditions = append(status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(e.Clock.Now()),
		})
	default:
		status.Conditions[index].Reason, status.Conditions[index].Message = reason, message
	}
}
