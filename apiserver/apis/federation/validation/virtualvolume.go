// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// maxMoveID is the maximum length of the ID of a move, the length of a UUID. The ID is part of
	// names and the value of a label.
	maxMoveID = 36
	// maxMountedBy is the maximum number of pods in status.mountedBy.
	maxMountedBy = 16
	// maxMoveMessage is the maximum length of the message of a move, in bytes.
	maxMoveMessage = 4 << 10
	// maxEvictionTimeout is the maximum of evictionTimeoutSeconds, one day.
	maxEvictionTimeout = 24 * 60 * 60
)

// minBandwidth and maxBandwidth are the limits of spec.bandwidth, in bytes per second. A slower
// move would practically never end, and no network is faster than maxBandwidth.
var minBandwidth, maxBandwidth = resource.MustParse("64Ki"), resource.MustParse("100Gi")

// ValidateVirtualVolume validates a new virtual volume.
func ValidateVirtualVolume(volume *federation.VirtualVolume) field.ErrorList {
	return append(metadata(volume, true), requestedMove(volume.Spec.Move)...)
}

// ValidateVirtualVolumeUpdate validates an update of a virtual volume. spec.move cannot change
// before the move has ended. It can be removed, which cancels the move, until the claim is bound to
// the target volume.
func ValidateVirtualVolumeUpdate(volume, old *federation.VirtualVolume) field.ErrorList {
	errs := append(metadataUpdate(volume, old), requestedMove(volume.Spec.Move)...)
	return append(errs, moveUpdate(volume, old)...)
}

func moveUpdate(volume, old *federation.VirtualVolume) field.ErrorList {
	path, move, before := specPath.Child("move"), volume.Spec.Move, old.Spec.Move
	if apiequality.Semantic.DeepEqual(move, before) {
		return nil
	}
	if old.Moving() {
		switch phase := old.MovePhase(); {
		case move != nil:
			return forbidden(path, "move %s has not ended and cannot change; to cancel it, remove spec.move", before.ID)
		case !phase.Cancellable():
			return forbidden(path, "move %s is %s and cannot be cancelled any more; move the data back afterwards",
				before.ID, phase)
		}
		return nil
	}
	if move == nil {
		return nil
	}
	if id, undoing := old.RollingBack(); undoing {
		return forbidden(path, "move %s is being rolled back; wait until it has ended", id)
	}
	if last := old.Status.Move; last != nil && move.ID == last.ID {
		return field.ErrorList{field.Invalid(path.Child("id"), truncate(move.ID),
			"must not be the id of the last move; the server generates an id if it is empty")}
	}
	return nil
}

func forbidden(path *field.Path, format string, args ...any) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(format, args...))}
}

func requestedMove(move *federation.RequestedMove) field.ErrorList {
	if move == nil {
		return nil
	}
	path := specPath.Child("move")
	return append(moveID(move.ID, path.Child("id")), moveSpec(&move.MoveSpec, path)...)
}

func moveID(id string, path *field.Path) field.ErrorList {
	errs := dnsLabel(id, path)
	if len(id) > maxMoveID {
		errs = append(errs, field.TooLong(path, "", maxMoveID))
	}
	return errs
}

// ValidateMove validates the body of a request to the verb move. It does not verify that the target
// exists.
func ValidateMove(move *federation.Move) field.ErrorList {
	return moveSpec(&move.Spec, specPath)
}

func moveSpec(spec *federation.MoveSpec, path *field.Path) field.ErrorList {
	errs := moveTarget(&spec.Target, path.Child("target"))
	errs = append(errs, oneOf(spec.Strategy, path.Child("strategy"),
		federation.MoveOnline, federation.MoveOffline)...)
	errs = append(errs, oneOf(spec.Verify, path.Child("verify"), federation.VerifyChanged, federation.VerifyFull)...)
	errs = append(errs, bandwidth(spec.Bandwidth, path.Child("bandwidth"))...)
	return append(errs, seconds(spec.EvictionTimeoutSeconds, 1, maxEvictionTimeout,
		path.Child("evictionTimeoutSeconds"))...)
}

func moveTarget(target *federation.MoveTarget, path *field.Path) field.ErrorList {
	if *target == (federation.MoveTarget{}) {
		return field.ErrorList{field.Required(path, "must have local, clusterName, nodeName or storageClassName")}
	}
	var errs field.ErrorList
	if target.Local && target.ClusterName != "" {
		errs = append(errs, forbidden(path.Child("clusterName"),
			"must be empty if local is set")...)
	}
	errs = append(errs, optional(target.ClusterName, path.Child("clusterName"), clusterName)...)
	errs = append(errs, optional(target.NodeName, path.Child("nodeName"), subdomain)...)
	return append(errs, optional(target.StorageClassName, path.Child("storageClassName"), subdomain)...)
}

func bandwidth(quantity *resource.Quantity, path *field.Path) field.ErrorList {
	if quantity == nil || quantity.Cmp(minBandwidth) >= 0 && quantity.Cmp(maxBandwidth) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, truncate(quantity.String()),
		fmt.Sprintf("must be %s to %s bytes per second, or empty for no limit",
			&minBandwidth, &maxBandwidth))}
}

// ValidateVirtualVolumeStatusUpdate validates an update of the status of a virtual volume.
func ValidateVirtualVolumeStatusUpdate(volume, old *federation.VirtualVolume) field.ErrorList {
	status := &volume.Status
	errs := metadataUpdate(volume, old)
	errs = append(errs, oneOf(status.Phase, statusPath.Child("phase"), "",
		federation.VirtualVolumePending, federation.VirtualVolumeProvisioning, federation.VirtualVolumeBound,
		federation.VirtualVolumeMoving, federation.VirtualVolumeLost)...)
	if status.Location != nil {
		errs = append(errs, location(status.Location, statusPath.Child("location"))...)
	}
	if status.Capacity != nil && status.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(statusPath.Child("capacity"), status.Capacity.String(),
			"must not be negative"))
	}
	errs = append(errs, uniqueNames(status.MountedBy, maxMountedBy, statusPath.Child("mountedBy"), subdomain)...)
	if status.Move != nil {
		errs = append(errs, moveProgress(status.Move, statusPath.Child("move"))...)
	}
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

func location(at *federation.VolumeLocation, path *field.Path) field.ErrorList {
	errs := optional(at.ClusterName, path.Child("clusterName"), clusterName)
	errs = append(errs, optional(at.ClusterID, path.Child("clusterID"), clusterID)...)
	errs = append(errs, optional(at.StorageClassName, path.Child("storageClassName"), subdomain)...)
	errs = append(errs, optional(at.VolumeName, path.Child("volumeName"), subdomain)...)
	errs = append(errs, optional(at.Namespace, path.Child("namespace"), dnsLabel)...)
	return append(errs, optional(at.ClaimName, path.Child("claimName"), subdomain)...)
}

func moveProgress(move *federation.MoveProgress, path *field.Path) field.ErrorList {
	errs := moveID(move.ID, path.Child("id"))
	errs = append(errs, oneOf(move.Phase, path.Child("phase"),
		federation.MovePreparing, federation.MoveCopying, federation.MoveQuiescing, federation.MoveLocking,
		federation.MoveFinalCopy, federation.MoveSwitching, federation.MoveReleasing, federation.MoveCleaning,
		federation.MoveRollingBack, federation.MoveSucceeded, federation.MoveFailed, federation.MoveCancelled)...)
	if len(move.Message) > maxMoveMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxMoveMessage))
	}
	errs = append(errs, printableText(move.Message, path.Child("message"))...)
	errs = append(errs, location(&move.Source, path.Child("source"))...)
	errs = append(errs, location(&move.Target, path.Child("target"))...)
	errs = append(errs, notNegative(move.Passes, path.Child("passes"))...)
	errs = append(errs, notNegative(move.BytesTotal, path.Child("bytesTotal"))...)
	errs = append(errs, notNegative(move.BytesCopied, path.Child("bytesCopied"))...)
	errs = append(errs, notNegative(move.FilesTotal, path.Child("filesTotal"))...)
	errs = append(errs, notNegative(move.FilesCopied, path.Child("filesCopied"))...)
	errs = append(errs, notNegative(move.BytesPerSecond, path.Child("bytesPerSecond"))...)
	if move.RemainingSeconds != nil {
		errs = append(errs, notNegative(*move.RemainingSeconds, path.Child("remainingSeconds"))...)
	}
	if move.DowntimeMilliseconds != nil {
		errs = append(errs, notNegative(*move.DowntimeMilliseconds, path.Child("downtimeMilliseconds"))...)
	}
	return errs
}
