// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestColumnMoveShowsTheProgress(t *testing.T) {
	requested := &federation.RequestedMove{ID: "a"}
	for _, test := range []struct {
		name      string
		requested *federation.RequestedMove
		move      *federation.MoveProgress
		want      string
	}{
		{"no move", nil, nil, "<none>"},
		{"not begun", requested, nil, "Requested"},
		{"not begun after an earlier move", requested, &federation.MoveProgress{ID: "b", Phase: federation.MoveSucceeded},
			"Requested"},
		{"preparing", requested, &federation.MoveProgress{ID: "a", Phase: federation.MovePreparing}, "Preparing"},
		{"copying", requested, &federation.MoveProgress{ID: "a", Phase: federation.MoveCopying, BytesTotal: 1 << 30,
			BytesCopied: 440 << 20, FilesTotal: 20, FilesCopied: 8, BytesPerSecond: 52<<20 + 123,
			RemainingSeconds: ptr.To[int64](12)}, "Copying (42% of 1Gi, 8/20 files, 52Mi/s, 12s left)"},
		{"copying more than the total", requested, &federation.MoveProgress{ID: "a", Phase: federation.MoveFinalCopy,
			BytesTotal: 10, BytesCopied: 11, BytesPerSecond: 1023}, "FinalCopy (100% of 10, 1023/s)"},
		{"rolling back", nil, &federation.MoveProgress{ID: "a", Phase: federation.MoveRollingBack, BytesTotal: 10},
			"RollingBack"},
		{"succeeded", requested, &federation.MoveProgress{ID: "a", Phase: federation.MoveSucceeded,
			DowntimeMilliseconds: ptr.To[int64](3240)}, "Succeeded (downtime 3.2s)"},
		{"succeeded with files", requested, &federation.MoveProgress{ID: "a", Phase: federation.MoveSucceeded,
			BytesTotal: 3 << 20, FilesTotal: 997, DowntimeMilliseconds: ptr.To[int64](3240)},
			"Succeeded (3Mi, 997 files, downtime 3.2s)"},
		{"failed", requested, &federation.MoveProgress{ID: "a", Phase: federation.MoveFailed}, "Failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := progress(test.requested, test.move); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestColumnsShowTheLocationOfTheData(t *testing.T) {
	const id = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	for _, test := range []struct {
		name string
		at   *federation.VolumeLocation
		want []any
	}{
		{"no location", nil, []any{"<none>", "<none>", "<none>", "<none>"}},
		{"this cluster", &federation.VolumeLocation{StorageClassName: "ssd", VolumeName: "pvc-1"}, []any{"Local", "ssd",
			"pvc-1", "<none>"}},
		{"a provider", &federation.VolumeLocation{ClusterName: "milan", ClusterID: id, Namespace: "shop-rome",
			ClaimName: "data-1"},
			[]any{"milan", "<none>", "<none>", "shop-rome/data-1"}},
		{"a former provider", &federation.VolumeLocation{ClusterID: id, Namespace: "shop-rome", ClaimName: "data-1"},
			[]any{id, "<none>", "<none>", "shop-rome/data-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			volume := &federation.VirtualVolume{Status: federation.VirtualVolumeStatus{Location: test.at}}
			got := map[string]any{}
			for _, column := range columns {
				got[column.Name] = column.Cell(volume)
			}
			shown := []any{got["Cluster"], got["Storage Class"], got["Volume"], got["Remote Claim"]}
			if diff := cmp.Diff(test.want, shown); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
		})
	}
	volume := &federation.VirtualVolume{
		Spec: federation.VirtualVolumeSpec{Move: &federation.RequestedMove{MoveSpec: federation.MoveSpec{
			Target: federation.MoveTarget{Local: true, StorageClassName: "ssd"}, Strategy: federation.MoveOffline}}},
		Status: federation.VirtualVolumeStatus{Phase: federation.VirtualVolumeBound,
			Capacity: ptr.To(resource.MustParse("1Gi")),
			Conditions: []metav1.Condition{{Type: federation.ConditionVolumeReady, Status: metav1.ConditionFalse,
				Reason: "ProviderUnreachable"}},
			MountedBy: []string{"web-0", "web-1", "web-2", "web-3", "web-4"}},
	}
	want := map[string]any{"Phase": "Bound", "Ready": "ProviderUnreachable", "Capacity": "1Gi",
		"Mounted By":  "web-0,web-1,web-2 + 2 more...",
		"Move Target": "Local/ssd", "Strategy": "Offline"}
	got := map[string]any{}
	for _, column := range columns {
		if _, ok := want[column.Name]; ok {
			got[column.Name] = column.Cell(volume)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}
