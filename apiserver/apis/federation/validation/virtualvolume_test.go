// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func virtualVolume(phase federation.MovePhase) *federation.VirtualVolume {
	volume := &federation.VirtualVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: "shop"},
		Spec: federation.VirtualVolumeSpec{Move: &federation.RequestedMove{ID: "bqk5v7x2mf", MoveSpec: federation.MoveSpec{
			Target: federation.MoveTarget{ClusterName: "milan"}, Strategy: federation.MoveOnline,
			Verify:    federation.VerifyChanged,
			Bandwidth: ptr.To(resource.MustParse("50Mi")), EvictionTimeoutSeconds: ptr.To[int32](300),
		}}},
	}
	if phase != "" {
		volume.Status.Move = &federation.MoveProgress{ID: volume.Spec.Move.ID, Phase: phase}
	}
	return volume
}

func TestMovesAreValidated(t *testing.T) {
	move := func(change func(*federation.RequestedMove)) func(*federation.VirtualVolume) {
		return func(v *federation.VirtualVolume) { change(v.Spec.Move) }
	}
	target := func(target federation.MoveTarget) func(*federation.VirtualVolume) {
		return func(v *federation.VirtualVolume) { v.Spec.Move.Target = target }
	}
	bandwidth := func(quantity string) func(*federation.VirtualVolume) {
		return func(v *federation.VirtualVolume) { v.Spec.Move.Bandwidth = ptr.To(resource.MustParse(quantity)) }
	}
	tests := map[string]wrong[*federation.VirtualVolume]{
		"no target": {target(federation.MoveTarget{}), []string{"spec.move.target"}},
		"two clusters": {target(federation.MoveTarget{Local: true, ClusterName: "milan"}),
			[]string{"spec.move.target.clusterName"}},
		"a path as a cluster": {target(federation.MoveTarget{ClusterName: "../rome"}),
			[]string{"spec.move.target.clusterName"}},
		"a path as a node": {target(federation.MoveTarget{NodeName: "a/b"}), []string{"spec.move.target.nodeName"}},
		"a path as a class": {target(federation.MoveTarget{StorageClassName: "a/b"}),
			[]string{"spec.move.target.storageClassName"}},
		"an unknown strategy": {move(func(m *federation.RequestedMove) { m.Strategy = "Sometimes" }),
			[]string{"spec.move.strategy"}},
		"no verification": {move(func(m *federation.RequestedMove) { m.Verify = "" }), []string{"spec.move.verify"}},
		"no id":           {move(func(m *federation.RequestedMove) { m.ID = "" }), []string{"spec.move.id"}},
		"a long id": {move(func(m *federation.RequestedMove) { m.ID = strings.Repeat("a", maxMoveID+1) }),
			[]string{"spec.move.id"}},
		"no bandwidth at all": {bandwidth("0"), []string{"spec.move.bandwidth"}},
		"a negative limit":    {bandwidth("-1Mi"), []string{"spec.move.bandwidth"}},
		"a limit too low":     {bandwidth("65535"), []string{"spec.move.bandwidth"}},
		"a limit too high":    {bandwidth("101Gi"), []string{"spec.move.bandwidth"}},
		"no time to evict": {move(func(m *federation.RequestedMove) { m.EvictionTimeoutSeconds = ptr.To[int32](0) }),
			[]string{"spec.move.evictionTimeoutSeconds"}},
		"two days to evict": {move(func(m *federation.RequestedMove) { m.EvictionTimeoutSeconds = ptr.To[int32](172800) }),
			[]string{"spec.move.evictionTimeoutSeconds"}},
	}
	runCreate(t, virtualVolume(""), ValidateVirtualVolume, tests)
	ended := func(volume, _ *federation.VirtualVolume) *federation.VirtualVolume {
		old := virtualVolume(federation.MoveFailed)
		old.Spec.Move.ID, old.Status.Move.ID, old.ResourceVersion = "other", "other", volume.ResourceVersion
		return old
	}
	for name, test := range tests {
		t.Run("update: "+name, func(t *testing.T) {
			volume := virtualVolume("")
			volume.ResourceVersion = "1"
			test.spoil(volume)
			if got := paths(ValidateVirtualVolumeUpdate(volume, ended(volume, nil))); fmt.Sprint(got) != fmt.Sprint(test.paths) {
				t.Errorf("got %v, want %v", got, test.paths)
			}
		})
	}
}

func TestRunningMovesCannotChange(t *testing.T) {
	another := func(v *federation.VirtualVolume) { v.Spec.Move.ID, v.Spec.Move.Target.ClusterName = "another", "rome" }
	changed := func(v *federation.VirtualVolume) { v.Spec.Move.Target.ClusterName = "rome" }
	removed := func(v *federation.VirtualVolume) { v.Spec.Move = nil }
	labelled := func(v *federation.VirtualVolume) { v.Labels = map[string]string{"a": "b"} }
	for _, test := range []struct {
		name   string
		phase  federation.MovePhase
		change func(*federation.VirtualVolume)
		refuse string
	}{
		{"a requested move that changes", "", changed, "spec.move"},
		{"a requested move that is cancelled", "", removed, ""},
		{"a running move that changes", federation.MoveCopying, changed, "spec.move"},
		{"another move meanwhile", federation.MoveCopying, another, "spec.move"},
		{"a running move that is cancelled", federation.MoveFinalCopy, removed, ""},
		{"a label meanwhile", federation.MoveCopying, labelled, ""},
		{"a move that is switching", federation.MoveSwitching, removed, "spec.move"},
		{"a move that is cleaning up", federation.MoveCleaning, removed, "spec.move"},
		{"a move that succeeded is forgotten", federation.MoveSucceeded, removed, ""},
		{"a move after one that succeeded", federation.MoveSucceeded, another, ""},
		{"a move after one that failed", federation.MoveFailed, another, ""},
		{"another move with the id of the last one", federation.MoveCancelled, changed, "spec.move.id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := virtualVolume(test.phase)
			old.ResourceVersion = "1"
			volume := old.DeepCopy()
			test.change(volume)
			if got := strings.Join(paths(ValidateVirtualVolumeUpdate(volume, old)), " "); got != test.refuse {
				t.Errorf("got %q, want %q", got, test.refuse)
			}
		})
	}
}

func TestNoMoveBeginsWhileAnotherIsRolledBack(t *testing.T) {
	old := virtualVolume(federation.MoveRollingBack)
	old.ResourceVersion = "1"
	volume := old.DeepCopy()
	volume.Spec.Move.ID, old.Spec.Move = "another", nil
	if got := strings.Join(paths(ValidateVirtualVolumeUpdate(volume, old)), " "); got != "spec.move" {
		t.Errorf("got %q", got)
	}
	old.Status.Move.Phase = federation.MoveCancelled
	if errs := ValidateVirtualVolumeUpdate(volume, old); len(errs) > 0 {
		t.Errorf("a move after a cancelled one is refused: %v", errs)
	}
}

func TestStatusOfVirtualVolumesIsValidated(t *testing.T) {
	good := virtualVolume(federation.MoveCopying)
	at := federation.VolumeLocation{ClusterName: "milan", ClusterID: milanID, StorageClassName: "ssd", VolumeName: "pvc-1",
		Namespace: "shop-rome", ClaimName: "data-db-0-1a2b3c4d"}
	good.Status = federation.VirtualVolumeStatus{
		Phase: federation.VirtualVolumeMoving, Location: at.DeepCopy(), Capacity: ptr.To(resource.MustParse("1Gi")),
		MountedBy: []string{"db-0"}, Conditions: []metav1.Condition{condition()},
		Move: &federation.MoveProgress{ID: "bqk5v7x2mf", Phase: federation.MoveCopying, Message: "Copying.", Source: at,
			BytesTotal: 2, BytesCopied: 1, RemainingSeconds: ptr.To[int64](1), DowntimeMilliseconds: ptr.To[int64](0)},
	}
	type volume = federation.VirtualVolume
	runUpdate(t, good, ValidateVirtualVolumeStatusUpdate, map[string]wrong[*volume]{
		"an unknown phase": {func(v *volume) { v.Status.Phase = "Great" }, []string{"status.phase"}},
		"a negative capacity": {func(v *volume) { v.Status.Capacity = ptr.To(resource.MustParse("-1")) },
			[]string{"status.capacity"}},
		"too many pods": {func(v *volume) {
			v.Status.MountedBy = many(maxMountedBy, func(i int) string { return fmt.Sprintf("db-%d", i) })
		}, []string{"status.mountedBy"}},
		"a path as a cluster": {func(v *volume) { v.Status.Location.ClusterName = "../x" },
			[]string{"status.location.clusterName"}},
		"a name as an id": {func(v *volume) { v.Status.Location.ClusterID = "milan" },
			[]string{"status.location.clusterID"}},
		"a path as a claim": {func(v *volume) { v.Status.Move.Source.ClaimName = "../x" },
			[]string{"status.move.source.claimName"}},
		"an unknown step":       {func(v *volume) { v.Status.Move.Phase = "Waiting" }, []string{"status.move.phase"}},
		"no id":                 {func(v *volume) { v.Status.Move.ID = "" }, []string{"status.move.id"}},
		"a terminal's language": {func(v *volume) { v.Status.Move.Message = "\x1b[2J" }, []string{"status.move.message"}},
		"an endless message": {func(v *volume) { v.Status.Move.Message = strings.Repeat("a", maxMoveMessage+1) },
			[]string{"status.move.message"}},
		"fewer bytes than none": {func(v *volume) { v.Status.Move.BytesCopied = -1 }, []string{"status.move.bytesCopied"}},
		"an end in the past": {func(v *volume) { v.Status.Move.RemainingSeconds = ptr.To[int64](-1) },
			[]string{"status.move.remainingSeconds"}},
		"less downtime than none": {func(v *volume) { v.Status.Move.DowntimeMilliseconds = ptr.To[int64](-1) },
			[]string{"status.move.downtimeMilliseconds"}},
		"a condition twice": {func(v *volume) { v.Status.Conditions = append(v.Status.Conditions, condition()) },
			[]string{"status.conditions[1]"}},
	})
}
