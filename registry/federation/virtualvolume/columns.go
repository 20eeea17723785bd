// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/store"
)

const (
	// local is the name of this cluster in cells. It cannot be the name of a ForeignCluster, because those have no
	// capitals.
	local = "Local"
	// requested is the phase of a move that has not begun.
	requested = "Requested"
	// maxPods is the maximum number of pods that a cell names.
	maxPods = 3
)

var columns = store.Table[*federation.VirtualVolume]{
	{Name: "Cluster", Description: "the cluster that stores the data", Cell: func(v *federation.VirtualVolume) any {
		return cluster(v.Status.Location)
	}},
	{Name: "Phase", Description: "the observed state of the data", Cell: func(v *federation.VirtualVolume) any {
		return store.OrNone(string(v.Status.Phase))
	}},
	{Name: "Ready", Description: "whether pods can use the data, or the reason why not",
		Cell: func(v *federation.VirtualVolume) any {
			return ready(v.Status.Conditions)
		}},
	{Name: "Capacity", Description: "the size of the volume", Cell: func(v *federation.VirtualVolume) any {
		if v.Status.Capacity == nil {
			return store.None
		}
		return v.Status.Capacity.String()
	}},
	{Name: "Mounted By", Description: "the pods that mount the claim", Cell: func(v *federation.VirtualVolume) any {
		return pods(v.Status.MountedBy)
	}},
	{Name: "Move", Description: "the current or the last move", Cell: func(v *federation.VirtualVolume) any {
		return progress(v.Spec.Move, v.Status.Move)
	}},
	{Name: "Storage Class", Wide: true, Description: "the storage class in the cluster that stores the data",
		Cell: func(v *federation.VirtualVolume) any {
			return ofLocation(v, func(at *federation.VolumeLocation) string { return at.StorageClassName })
		}},
	{Name: "Volume", Wide: true, Description: "the PersistentVolume in this cluster",
		Cell: func(v *federation.VirtualVolume) any {
			return ofLocation(v, func(at *federation.VolumeLocation) string { return at.VolumeName })
		}},
	{Name: "Remote Claim", Wide: true, Description: "the claim on the provider",
		Cell: func(v *federation.VirtualVolume) any {
			return ofLocation(v, func(at *federation.VolumeLocation) string {
				if at.ClaimName == "" {
					return ""
				}
				return at.Namespace + "/" + at.ClaimName
			})
		}},
	{Name: "Move Target", Wide: true, Description: "the cluster, node and storage class to move the data to",
		Cell: func(v *federation.VirtualVolume) any {
			if v.Spec.Move == nil {
				return store.None
			}
			return target(&v.Spec.Move.Target)
		}},
	{Name: "Strategy", Wide: true, Description: "the strategy of the requested move",
		Cell: func(v *federation.VirtualVolume) any {
			if v.Spec.Move == nil {
				return store.None
			}
			return string(v.Spec.Move.Strategy)
		}},
}

// ready returns the status of the condition Ready; if it is False, the reason.
func ready(conditions []metav1.Condition) string {
	condition := meta.FindStatusCondition(conditions, federation.ConditionVolumeReady)
	switch {
	case condition == nil:
		return string(metav1.ConditionUnknown)
	case condition.Status == metav1.ConditionFalse:
		return condition.Reason
	}
	return string(condition.Status)
}

func ofLocation(volume *federation.VirtualVolume, field func(*federation.VolumeLocation) string) string {
	if volume.Status.Location == nil {
		return store.None
	}
	return store.OrNone(field(volume.Status.Location))
}

func cluster(at *federation.VolumeLocation) string {
	switch {
	case at == nil:
		return store.None
	case at.ClusterName != "":
		return at.ClusterName
	case at.Namespace != "":
		// The ForeignCluster of the provider was deleted.
		return at.ClusterID
	}
	return local
}

func pods(names []string) string {
	if len(names) <= maxPods {
		return store.OrNone(strings.Join(names, ","))
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(names[:maxPods], ","), len(names)-maxPods)
}

func target(to *federation.MoveTarget) string {
	where := to.ClusterName
	if to.Local {
		where = local
	}
	for _, part := range []string{to.NodeName, to.StorageClassName} {
		if part != "" {
			where += "/" + part
		}
	}
	return strings.TrimPrefix(where, "/")
}

// progress returns the state of a move for a cell. It starts with the phase. A copying move also has percentage, size,
// files, rate and remaining time, and a successful one size, files and downtime. Directories count as files.
func progress(request *federation.RequestedMove, move *federation.MoveProgress) string {
	if request != nil && (move == nil || move.ID != request.ID && move.Phase.Ended()) {
		return requested
	}
	if move == nil {
		return store.None
	}
	var figures []string
	switch move.Phase {
	case federation.MoveCopying, federation.MoveFinalCopy:
		if move.BytesTotal > 0 {
			figures = append(figures, fmt.Sprintf("%d%% of %s", percent(move.BytesCopied, move.BytesTotal),
				size(move.BytesTotal)))
		}
		if move.FilesTotal > 0 {
			figures = append(figures, fmt.Sprintf("%d/%d files", move.FilesCopied, move.FilesTotal))
		}
		if move.BytesPerSecond > 0 {
			figures = append(figures, size(move.BytesPerSecond)+"/s")
		}
		if move.RemainingSeconds != nil {
			left := duration.HumanDuration(time.Duration(*move.RemainingSeconds) * time.Second)
			figures = append(figures, left+" left")
		}
	case federation.MoveSucceeded:
		if move.BytesTotal > 0 {
			figures = append(figures, size(move.BytesTotal), fmt.Sprintf("%d files", move.FilesTotal))
		}
		if move.DowntimeMilliseconds != nil {
			down := time.Duration(*move.DowntimeMilliseconds) * time.Millisecond
			figures = append(figures, "downtime "+down.Round(100*time.Millisecond).String())
		}
	}
	if len(figures) == 0 {
		return string(move.Phase)
	}
	return fmt.Sprintf("%s (%s)", move.Phase, strings.Join(figures, ", "))
}

// size returns bytes as text, rounded down to a multiple of the largest binary unit that fits, for example 1Gi for 1.9
// GiB.
func size(bytes int64) string {
	for unit := int64(1 << 60); unit > 1; unit >>= 10 {
		if bytes >= unit {
			return resource.NewQuantity(bytes/unit*unit, resource.BinarySI).String()
		}
	}
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}

func percent(copied, total int64) int64 {
	return int64(min(float64(copied)/float64(total), 1) * 100)
}
