// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

// recovered returns the progress of a move that only annotationMark of its volumes records, because the virtual volume
// was created again or restored from an older backup; nil if no volume has the annotation.
func (r *Reconciler) recovered(ctx context.Context, vv *v1alpha1.VirtualVolume) (*v1alpha1.MoveProgress, error) {
	key := types.NamespacedName{Namespace: vv.Namespace, Name: vv.Name}
	source, target, err := r.markedVolumes(ctx, key)
	if err != nil || source == nil && target == nil {
		return nil, err
	}
	mark, _ := markOf(firstOf(source, target))
	progress := &v1alpha1.MoveProgress{ID: mark.ID, Phase: v1alpha1.MoveRollingBack, ClaimUID: mark.ClaimUID}
	progress.Message = "The virtual volume was created again or restored from a backup, " +
		"and its status did not record the move any more."
	if source != nil {
		if progress.Source, err = r.location(ctx, source); err != nil {
			return nil, err
		}
	}
	if target != nil {
		if progress.Target, err = r.location(ctx, target); err != nil {
			return nil, err
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim, err = found(claim, r.Live.Get(ctx, key, claim))
	if err != nil {
		return nil, err
	}
	switch targetMark := markOrNil(target); {
	case targetMark == nil || targetMark.Manifest == nil:
	case claim != nil && claim.UID != mark.ClaimUID && claim.Spec.VolumeName == target.Name &&
		claim.Status.Phase == corev1.ClaimBound:
		progress.Phase = v1alpha1.MoveReleasing
	case claim == nil || claim.UID != mark.ClaimUID || !claim.DeletionTimestamp.IsZero():
		progress.Phase = v1alpha1.MoveSwitching
	}
	return progress, nil
}

// markedVolumes returns the source and the target volume of a claim's move, which it finds by annotationMark; nil for
// each that does not exist.
func (r *Reconciler) markedVolumes(
	ctx context.Context, key types.NamespacedName,
) (source, target *corev1.PersistentVolume, err error) {
	var volumes corev1.PersistentVolumeList
	if err := r.Client.List(ctx, &volumes, client.MatchingFields{kit.IndexMoving: kit.ValueMoving}); err != nil {
		return nil, nil, fmt.Errorf("listing volumes: %w", err)
	}
	for i := range volumes.Items {
		mark, ok := markOf(&volumes.Items[i])
		if !ok || mark.Namespace != key.Namespace || mark.Claim != key.Name {
			continue
		}
		// The cache may not have received the removal of annotationMark.
		current, err := r.persistentVolume(ctx, volumes.Items[i].Name)
		if err != nil {
			return nil, nil, err
		}
		if current == nil {
			continue
		}
		if mark, ok = markOf(current); !ok {
			continue
		}
		if mark.Source == current.Name {
			source = current
		} else {
			target = current
		}
	}
	return source, target, nil
}

// endWithNamespace ends the move of a virtual volume whose namespace is being deleted, because no object can be created
// there. Both volumes are retained.
func (r *Reconciler) endWithNamespace(ctx context.Context, vv *v1alpha1.VirtualVolume) (ctrl.Result, error) {
	if progress := vv.Status.Move; progress != nil && !ended(progress.Phase) {
		m := &move{Reconciler: r, volume: vv, progress: progress.DeepCopy(), names: namesOf(progress.ID)}
		const message = "The namespace is being deleted: both volumes are retained."
		if err := m.enter(ctx, v1alpha1.MoveFailed, message); err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.abandon(ctx, types.NamespacedName{Namespace: vv.Namespace, Name: vv.Name})
}

// namespace returns a namespace from the API server, or nil if it does not exist.
func (r *Reconciler) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	return found(namespace, r.Live.Get(ctx, types.NamespacedName{Name: name}, namespace))
}

// abandon ends a move whose virtual volume was deleted. If the namespace still exists, it waits until the virtual
// volume is created again and the move continues. Otherwise, it removes annotationMark from both volumes once they have
// the phase Released or the namespace no longer exists; both volumes are retained. A target whose claimRef has no UID
// gets the UID of the receiver's claim, so that no claim in a new namespace of this name is bound to it.
func (r *Reconciler) abandon(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	source, target, err := r.markedVolumes(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if source == nil && target == nil {
		return ctrl.Result{}, nil
	}
	namespace, err := r.namespace(ctx, key.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if namespace != nil && namespace.DeletionTimestamp.IsZero() {
		// The virtual-volume controller creates the virtual volume again, and the move continues.
		return ctrl.Result{RequeueAfter: pollInterval}, nil
	}
	if mark := markOrNil(target); mark != nil && target.Spec.ClaimRef != nil && target.Spec.ClaimRef.UID == "" {
		receiver := types.NamespacedName{Namespace: key.Namespace, Name: namesOf(mark.ID).target}
		if err := r.bindTo(ctx, target, receiver, mark.TargetClaimUID, "", nil); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: stepDelay}, nil
	}
	waiting := false
	for _, pv := range []*corev1.PersistentVolume{source, target} {
		if pv == nil {
			continue
		}
		if namespace != nil && pv.Status.Phase != corev1.VolumeReleased {
			waiting = true
			continue
		}
		wanted := pv.DeepCopy()
		discard(wanted, corev1.PersistentVolumeReclaimRetain)
		if _, err := kit.Commit(ctx, r.Client, pv, wanted); err != nil {
			return ctrl.Result{}, fmt.Errorf("removing the annotation of the move from volume %s: %w", pv.Name, err)
		}
		r.Events.Eventf(pv, corev1.EventTypeWarning, ReasonAbandoned,
			"Namespace %s was deleted while the data of claim %s was being moved: the volume is retained.",
			key.Namespace, key.Name)
	}
	if waiting {
		return ctrl.Result{RequeueAfter: pollInterval}, nil
	}
	return ctrl.Result{}, nil
}

func markOrNil(pv *corev1.PersistentVolume) *Mark {
	if pv == nil {
		return nil
	}
	mark, _ := markOf(pv)
	return mark
}

func firstOf(volumes ...*corev1.PersistentVolume) *corev1.PersistentVolume {
	for _, pv := range volumes {
		if pv != nil {
			return pv
		}
	}
	return nil
}
