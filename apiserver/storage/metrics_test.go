// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
)

func TestNamesOfMetricsAreAContract(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	RegisterMetrics(registry.MustRegister)
	countSnapshot("", time.Now(), errors.New("full"))
	countDefragmentation(nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{
		"federation_etcd_defragmentations_total",
		"federation_etcd_last_snapshot_size_bytes",
		"federation_etcd_last_snapshot_timestamp_seconds",
		"federation_etcd_snapshots_total",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
