// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/util/dryrun"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource"
)

var (
	moveResource = federation.Resource("virtualvolumes/move")
	moveKind     = federation.Kind("Move")
)

// moveOf returns the Move of a VirtualVolume. If the requested move has not begun, the status has no progress, because
// status.move describes an earlier move.
func moveOf(volume *federation.VirtualVolume) *federation.Move {
	move := &federation.Move{ObjectMeta: subresource.Metadata(volume)}
	if volume.Spec.Move == nil || volume.MovePhase() != "" {
		move.Status.Progress = volume.Status.Move.DeepCopy()
	}
	if volume.Spec.Move != nil {
		move.Spec = *volume.Spec.Move.MoveSpec.DeepCopy()
	}
	return move
}

// unchanged returns the Move of a VirtualVolume whose current move equals the requested one. In a dry run, the plan has
// action None.
func unchanged(volume *federation.VirtualVolume, dryRun []string) *federation.Move {
	move := moveOf(volume)
	if !dryrun.IsDryRun(dryRun) {
		return move
	}
	move.Status.Plan = &federation.MovePlan{Action: federation.PlanNone}
	if at := volume.Status.Location; at != nil {
		move.Status.Plan.Source, move.Status.Plan.Target = *at, *at
	}
	if progress := volume.Status.Move; volume.MovePhase() != "" {
		move.Status.Plan.Source, move.Status.Plan.Target = progress.Source, progress.Target
	}
	return move
}

// differences returns the fields in which a requested move differs from the current one.
func differences(current, requested *federation.MoveSpec) []subresource.Difference {
	var found []subresource.Difference
	differ := func(field string, a, b any) {
		if !apiequality.Semantic.DeepEqual(a, b) {
			found = append(found, subresource.Differs("spec."+field, a, b))
		}
	}
	differ("target.local", current.Target.Local, requested.Target.Local)
	differ("target.clusterName", current.Target.ClusterName, requested.Target.ClusterName)
	differ("target.nodeName", current.Target.NodeName, requested.Target.NodeName)
	differ("target.storageClassName", current.Target.StorageClassName, requested.Target.StorageClassName)
	differ("strategy", current.Strategy, requested.Strategy)
	differ("verify", current.Verify, requested.Verify)
	differ("keepSource", current.KeepSource, requested.KeepSource)
	differ("bandwidth", limit(current.Bandwidth), limit(requested.Bandwidth))
	differ("evictionTimeoutSeconds", timeout(current.EvictionTimeoutSeconds), timeout(requested.EvictionTimeoutSeconds))
	return found
}

func limit(bandwidth *resource.Quantity) string {
	if bandwidth == nil {
		return "unlimited"
	}
	return resource.NewQuantity(bandwidth.Value(), resource.BinarySI).String()
}

func timeout(seconds *int32) int32 {
	if seconds == nil {
		return v1alpha1.DefaultEvictionTimeoutSeconds
	}
	return *seconds
}

// notFound returns NotFound with a reason in its message.
func notFound(name, reason string) error {
	err := apierrors.NewNotFound(moveResource, name)
	err.ErrStatus.Message += ": " + reason
	return err
}

// checkManagers fails with Conflict if the request changes a field that another field manager applied.
func checkManagers(manager string, current, requested *federation.VirtualVolume) error {
	before, after := &v1alpha1.VirtualVolume{}, &v1alpha1.VirtualVolume{}
	if err := v1alpha1.Convert_federation_VirtualVolume_To_v1alpha1_VirtualVolume(current, before, nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := v1alpha1.Convert_federation_VirtualVolume_To_v1alpha1_VirtualVolume(requested, after, nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	return subresource.CheckManagers(moveResource, manager, before, after)
}

var moveTable = store.Table[*federation.Move]{
	{Name: "Target", Description: "the cluster, node and storage class to move the data to",
		Cell: func(m *federation.Move) any {
			return store.OrNone(target(&m.Spec.Target))
		}},
	{Name: "Strategy", Description: "when the move stops pods that use the volume", Cell: func(m *federation.Move) any {
		return store.OrNone(string(m.Spec.Strategy))
	}},
	{Name: "Verify", Description: "how the move compares source and target", Cell: func(m *federation.Move) any {
		return store.OrNone(string(m.Spec.Verify))
	}},
	{Name: "Move", Description: "the current or the last move", Cell: func(m *federation.Move) any {
		if m.Status.Progress == nil && m.Spec.Target != (federation.MoveTarget{}) {
			return requested
		}
		return progress(nil, m.Status.Progress)
	}},
}
