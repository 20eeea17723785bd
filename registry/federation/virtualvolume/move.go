// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/subresource"
	"liqo.io/federation/registry/federation/subresource/plan"
)

// MoveREST serves the subresource move: POST requests a move of the data of a VirtualVolume, DELETE cancels the move. A
// request writes the VirtualVolume and returns. Controllers run the move. PUT and PATCH are not supported, because a
// running move cannot be changed.
type MoveREST struct {
	volumes subresource.Parent
	plans   plan.Reader
}

// NewMoveREST returns the subresource move. volumes is the store of VirtualVolumes, and plans checks requests and
// computes the plans of dry runs.
func NewMoveREST(volumes subresource.Parent, plans plan.Reader) *MoveREST {
	return &MoveREST{volumes: volumes, plans: plans}
}

// New returns an empty Move.
func (r *MoveREST) New() runtime.Object { return &federation.Move{} }

// Destroy does nothing: the store belongs to the parent resource.
func (r *MoveREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate returns true: the API server must not drop uid and
// resourceVersion from the body of a POST, because they are preconditions.
func (r *MoveREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Get returns the requested move of a VirtualVolume and its progress. It fails with NotFound if the claim has no
// VirtualVolume.
func (r *MoveREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	volume, err := r.get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return moveOf(volume), nil
}

// Create requests a move. A repeated request changes nothing while the move runs and after it succeeded. It fails with
// Conflict if another move runs, with TooManyRequests while a move is rolled back, and with Invalid if the volume
// cannot be moved.
func (r *MoveREST) Create(
	ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc,
	options *metav1.CreateOptions,
) (runtime.Object, error) {
	move, ok := obj.(*federation.Move)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a Move, got a %T", obj))
	}
	if err := subresource.CheckName(name, move); err != nil {
		return nil, err
	}
	if errs := validation.ValidateMove(move); len(errs) > 0 {
		return nil, apierrors.NewInvalid(moveKind, name, errs)
	}
	if createValidation != nil {
		if err := createValidation(ctx, move.DeepCopy()); err != nil {
			return nil, err
		}
	}
	return subresource.Settle(moveResource, name, func() (*federation.Move, error) {
		return r.request(ctx, name, move, options)
	})
}

// request sets spec.move of the VirtualVolume, unless the same move is requested already and runs or has succeeded.
func (r *MoveREST) request(
	ctx context.Context, name string, move *federation.Move, options *metav1.CreateOptions,
) (*federation.Move, error) {
	volume, err := r.get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := subresource.CheckPreconditions(moveResource, name, move, volume); err != nil {
		return nil, err
	}
	if volume.DeletionTimestamp != nil {
		return nil, subresource.Deleting(moveResource, name)
	}
	if id, rollingBack := volume.RollingBack(); rollingBack {
		return nil, subresource.Busy(moveResource, name,
			fmt.Sprintf("move %s is being rolled back; wait until it has ended and retry", id))
	}
	if volume.Moving() || volume.MovePhase() == federation.MoveSucceeded {
		found := differences(&volume.Spec.Move.MoveSpec, &move.Spec)
		if len(found) == 0 {
			return unchanged(volume, options.DryRun), nil
		}
		if volume.Moving() {
			return nil, subresource.Contradiction(moveResource, name, found,
				"wait until that move has ended, or cancel it by DELETE of this subresource")
		}
	}
	planned, errs, err := r.plans.Move(ctx, volume, &move.Spec)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(moveKind, name, errs)
	}
	requested := volume.DeepCopy()
	requested.Spec.Move = &federation.RequestedMove{ID: newMoveID(), MoveSpec: *move.Spec.DeepCopy()}
	if err := checkManagers(options.FieldManager, volume, requested); err != nil {
		return nil, err
	}
	// requested has the resourceVersion that this decision was based on: the update fails if the object changed.
	updated, _, err := r.volumes.Update(ctx, name, rest.DefaultUpdatedObjectInfo(requested),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return nil, subresource.LostRace(err)
	}
	answer := moveOf(updated.(*federation.VirtualVolume))
	if dryrun.IsDryRun(options.DryRun) {
		answer.Status.Plan = planned
	}
	return answer, nil
}

// Delete cancels the move and does not wait: controllers roll it back and leave the source unchanged. It fails with
// NotFound if no move runs, and with Conflict if the requested move has succeeded or can no longer be cancelled.
func (r *MoveREST) Delete(
	ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	volume, err := r.get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	if deleteValidation != nil {
		if err := deleteValidation(ctx, moveOf(volume)); err != nil {
			return nil, false, err
		}
	}
	updated, _, err := r.volumes.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			return cancelled(old.(*federation.VirtualVolume), options)
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false,
		&metav1.UpdateOptions{DryRun: options.DryRun})
	if err != nil {
		return nil, false, err
	}
	return moveOf(updated.(*federation.VirtualVolume)), false, nil
}

// cancelled returns the VirtualVolume without its requested move, or unchanged if the move is being rolled back
// already. It fails if no move can be cancelled.
func cancelled(volume *federation.VirtualVolume, options *metav1.DeleteOptions) (*federation.VirtualVolume, error) {
	if err := subresource.CheckDeletePreconditions(moveResource, options, volume); err != nil {
		return nil, err
	}
	requested := volume.DeepCopy()
	if _, rollingBack := volume.RollingBack(); rollingBack && volume.Spec.Move == nil {
		return requested, nil
	}
	switch phase := volume.MovePhase(); {
	case phase == federation.MoveSucceeded:
		return nil, apierrors.NewConflict(moveResource, volume.Name,
			fmt.Errorf("the data has been moved; move it back by a POST of this subresource"))
	case !volume.Moving():
		return nil, notFound(volume.Name, "no move is running")
	case !phase.Cancellable():
		return nil, apierrors.NewConflict(moveResource, volume.Name, fmt.Errorf("the move is %s and cannot be "+
			"cancelled any more; wait until it has succeeded, and move the data back by a POST of this subresource",
			phase))
	}
	requested.Spec.Move = nil
	// DeleteOptions have no field manager.
	return requested, checkManagers("", volume, requested)
}

func (r *MoveREST) get(ctx context.Context, name string, options *metav1.GetOptions) (*federation.VirtualVolume,
	error) {
	obj, err := r.volumes.Get(ctx, name, options)
	if apierrors.IsNotFound(err) {
		return nil, notFound(name, "only claims of the virtual storage class have a VirtualVolume; "+
			"kubectl get virtualvolumes lists them")
	}
	if err != nil {
		return nil, err
	}
	return obj.(*federation.VirtualVolume), nil
}

// ConvertToTable returns the table of a Move.
func (r *MoveREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return moveTable.ConvertToTable(ctx, object, options)
}

var (
	_ rest.NamedCreater                   = &MoveREST{}
	_ rest.Getter                         = &MoveREST{}
	_ rest.GracefulDeleter                = &MoveREST{}
	_ rest.TableConvertor                 = &MoveREST{}
	_ rest.SubresourceObjectMetaPreserver = &MoveREST{}
)
