// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// shown returns the values of the metrics of the move of a claim while it runs, by name.
func shown(t *testing.T, registry metrics.KubeRegistry, claim string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), metricsNamespace+"_"+metricsSubsystem+"_running_")
		for _, metric := range family.GetMetric() {
			if ok && testutil.LabelsMatch(metric, map[string]string{"claim_namespace": namespace, "claim": claim}) {
				values[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestMetricsOfARunningMoveFollowItsProgressUntilItEnds(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	RegisterMetrics(registry.MustRegister)
	assertShown := func(when string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, shown(t, registry, claimName)); diff != "" {
			t.Errorf("metrics %s (-want +got):\n%s", when, diff)
		}
	}
	show(types.NamespacedName{Namespace: namespace, Name: claimName}, &v1alpha1.MoveProgress{
		Phase: v1alpha1.MoveCopying, BytesTotal: 1000, BytesCopied: 420, FilesTotal: 20, FilesCopied: 8,
		BytesPerSecond: 58, RemainingSeconds: ptr.To[int64](10),
	})
	assertShown("while the move copies", map[string]float64{"bytes": 1000, "bytes_copied": 420, "files": 20,
		"files_copied": 8, "bytes_per_second": 58, "remaining_seconds": 10})

	for _, test := range []struct {
		when string
		end  func(*world)
	}{
		{"after the move", func(w *world) { w.until(v1alpha1.MoveSucceeded) }},
		{"after the virtual volume was deleted", func(w *world) {
			w.must(w.kube.Delete(t.Context(), w.virtualVolume()))
			w.reconcile()
		}},
		{"after the store was restored from a time before the move", func(w *world) {
			for _, pv := range w.volumes() {
				delete(pv.Annotations, annotationMark)
				w.store(&pv)
			}
			vv := w.virtualVolume()
			vv.Spec.Move, vv.Status.Move, vv.Status.Conditions = nil, nil, nil
			w.store(vv)
			w.reconcile()
		}},
	} {
		w := newWorld(t, online())
		w.settle()
		w.until(v1alpha1.MoveCopying)
		assertShown("before the first report", map[string]float64{"bytes_per_second": 0})
		test.end(w)
		assertShown(test.when, map[string]float64{})
	}
}
