// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
)

func TestNamesOfMetricsAreAContract(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	if _, err := NewMetrics(registry.Register); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{
		"federation_virtual_kubelet_pod_offload_duration_seconds",
		"federation_virtual_kubelet_pod_ready_duration_seconds",
		"federation_virtual_kubelet_pod_status_writes_total",
		"federation_virtual_kubelet_pods",
		"federation_virtual_kubelet_provider_reachable",
		"federation_virtual_kubelet_reflection_errors_total",
		"federation_virtual_kubelet_reflection_writes_total",
		"federation_virtual_kubelet_reflections_total",
		"federation_virtual_kubelet_tokens_total",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
