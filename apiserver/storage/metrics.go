// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"os"
	"time"

	"k8s.io/component-base/metrics"
)

const (
	namespace = "federation"
	subsystem = "etcd"
)

var (
	snapshots = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "snapshots_total",
		Help:           "Snapshots of the embedded etcd that were due, by result: success or error.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	lastSnapshot = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "last_snapshot_timestamp_seconds",
		Help: "Time of the newest snapshot of the embedded etcd by this process, in seconds since 1970; " +
			"0 before the first.",
		StabilityLevel: metrics.ALPHA,
	})
	lastSnapshotSize = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "last_snapshot_size_bytes",
		Help:           "Size of the newest snapshot of the embedded etcd by this process, in bytes.",
		StabilityLevel: metrics.ALPHA,
	})
	defragmentations = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "defragmentations_total",
		Help:           "Defragmentations of the database of the embedded etcd, by result: success or error.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
)

// RegisterMetrics registers the metrics about maintenance of the embedded etcd.
func RegisterMetrics(register func(...metrics.Registerable)) {
	register(snapshots, lastSnapshot, lastSnapshotSize, defragmentations)
}

func countSnapshot(path string, at time.Time, err error) {
	snapshots.WithLabelValues(result(err)).Inc()
	if err != nil {
		return
	}
	lastSnapshot.Set(float64(at.Unix()))
	if info, err := os.Stat(path); err == nil {
		lastSnapshotSize.Set(float64(info.Size()))
	}
}

func countDefragmentation(err error) { defragmentations.WithLabelValues(result(err)).Inc() }

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}
