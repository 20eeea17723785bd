// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
)

func TestNamesOfMetricsAreAContract(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	Register(registry.MustRegister)
	ObserveReconcile("test", time.Second, errors.New("broken"))
	CountPatch("ForeignCluster", "status")
	SetHeartbeatExpired("rome", true)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	slices.Sort(names)
	want := []string{
		"federation_consumer_heartbeat_expired", "federation_patches_total", "federation_reconcile_duration_seconds",
		"federation_reconcile_errors_total",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
