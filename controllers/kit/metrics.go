// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	metricsPrefix = "controller_runtime_"
	queuePrefix   = "workqueue_"
)

// Metrics gathers the metrics of controller-runtime for the metrics endpoint of the process. It omits the metrics of
// Go, of the process and of clients, which the process registers itself. Its queue metrics have other labels than the
// workqueue metrics of client-go, so they are renamed to controller_runtime_workqueue_….
func Metrics() prometheus.Gatherer { return withoutDuplicates(metrics.Registry) }

func withoutDuplicates(all prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		var own []*dto.MetricFamily
		for _, family := range families {
			switch {
			case strings.HasPrefix(family.GetName(), metricsPrefix):
				own = append(own, family)
			case strings.HasPrefix(family.GetName(), queuePrefix):
				family.Name = ptr.To(metricsPrefix + family.GetName())
				own = append(own, family)
			}
		}
		return own, err
	})
}
