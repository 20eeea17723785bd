// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// measured has the values of the metrics of moves.
type measured struct {
	Succeeded, Failed, Cancelled, Bytes, Files, RateSum, DowntimeSum float64
}

func measure(t *testing.T) measured {
	t.Helper()
	read := func(value float64, err error) float64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	counted := func(phase v1alpha1.MovePhase) float64 {
		t.Helper()
		return read(testutil.GetCounterMetricValue(outcomes.WithLabelValues(string(phase))))
	}
	return measured{
		Succeeded: counted(v1alpha1.MoveSucceeded), Failed: counted(v1alpha1.MoveFailed),
		Cancelled: counted(v1alpha1.MoveCancelled),
		Bytes:     read(testutil.GetCounterMetricValue(bytesMoved)), Files: read(testutil.GetCounterMetricValue(filesMoved)),
		RateSum:     read(testutil.GetHistogramMetricValue(rate.ObserverMetric)),
		DowntimeSum: read(testutil.GetHistogramMetricValue(downtime.ObserverMetric)),
	}
}

func TestMetricsOfMovesCountTheirEnds(t *testing.T) {
	RegisterMetrics(metrics.NewKubeRegistry().MustRegister)
	before := measure(t)
	start := metav1.Now()
	observe(&v1alpha1.MoveProgress{
		Phase: v1alpha1.MoveSucceeded, BytesTotal: 1000, FilesTotal: 7, StartTime: &start,
		CompletionTime: ptr.To(metav1.NewTime(start.Add(10 * time.Second))), DowntimeMilliseconds: ptr.To[int64](1500),
	})
	for _, phase := range []v1alpha1.MovePhase{v1alpha1.MoveCancelled, v1alpha1.MoveFailed} {
		observe(&v1alpha1.MoveProgress{Phase: phase, BytesTotal: 5, FilesTotal: 5, StartTime: &start, CompletionTime: &start})
	}
	want := measured{
		Succeeded: before.Succeeded + 1, Failed: before.Failed + 1, Cancelled: before.Cancelled + 1,
		Bytes: before.Bytes + 1000, Files: before.Files + 7,
		RateSum: before.RateSum + 100, DowntimeSum: before.DowntimeSum + 1.5,
	}
	if diff := cmp.Diff(want, measure(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
