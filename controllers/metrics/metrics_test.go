// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
)

func TestNamesOfMetricsAreAContract(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	Register(registry.MustRegister)
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
	want := []string{"federation_consumer_heartbeat_expired", "federation_patches_total"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
