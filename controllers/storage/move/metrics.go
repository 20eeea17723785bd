// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	metricsNamespace = "federation"
	metricsSubsystem = "volume_move"
)

var (
	outcomes = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "total",
		Help:           "Moves of volumes that have ended, by outcome: Succeeded, Failed or Cancelled.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	bytesMoved = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "bytes_total",
		Help:           "Size of the files of volumes whose move succeeded, in bytes.",
		StabilityLevel: metrics.ALPHA,
	})
	filesMoved = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "files_total",
		Help:           "Number of files of volumes whose move succeeded.",
		StabilityLevel: metrics.ALPHA,
	})
	rate = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "bytes_per_second",
		Help:           "Size of the files of a volume divided by the duration of its move, in bytes per second.",
		Buckets:        metrics.ExponentialBuckets(1<<16, 4, 10),
		StabilityLevel: metrics.ALPHA,
	})
	downtime = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "downtime_seconds",
		Help:           "Time from the end of the last pod that used the source until the claim was bound to the target.",
		Buckets:        metrics.ExponentialBuckets(0.25, 2, 14),
		StabilityLevel: metrics.ALPHA,
	})
)

// running has the metrics of running moves, and the value of each, which is nil while it is unknown.
var running = []struct {
	gauge *metrics.GaugeVec
	value func(*v1alpha1.MoveProgress) *int64
}{
	{gaugeOfRunning("bytes", "Size of the files that a running move copies, in bytes."),
		func(p *v1alpha1.MoveProgress) *int64 { return counted(p, p.BytesTotal) }},
	{gaugeOfRunning("bytes_copied", "Size of the files that the target of a running move has already, in bytes."),
		func(p *v1alpha1.MoveProgress) *int64 { return counted(p, p.BytesCopied) }},
	{gaugeOfRunning("files", "Number of files and directories that a running move copies."),
		func(p *v1alpha1.MoveProgress) *int64 { return counted(p, p.FilesTotal) }},
	{gaugeOfRunning("files_copied", "Number of files and directories that the target of a running move has already."),
		func(p *v1alpha1.MoveProgress) *int64 { return counted(p, p.FilesCopied) }},
	{gaugeOfRunning("bytes_per_second", "Transfer rate of a running move, in bytes per second."),
		func(p *v1alpha1.MoveProgress) *int64 { return &p.BytesPerSecond }},
	{gaugeOfRunning("remaining_seconds", "Estimated time until a running move has copied all files for the first time."),
		func(p *v1alpha1.MoveProgress) *int64 { return p.RemainingSeconds }},
}

// counted returns value, or nil before the sender has counted the files.
func counted(progress *v1alpha1.MoveProgress, value int64) *int64 {
	if progress.FilesTotal == 0 {
		return nil
	}
	return &value
}

// gaugeOfRunning returns a metric of running moves. Prometheus replaces a label with the name namespace by the
// namespace of the scraped pod, so the label of the claim's namespace has another name.
func gaugeOfRunning(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "running_" + name,
		Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{"claim_namespace", "claim"})
}

// RegisterMetrics registers the metrics of moves.
func RegisterMetrics(register func(...metrics.Registerable)) {
	register(outcomes, bytesMoved, filesMoved, rate, downtime)
	for _, figure := range running {
		register(figure.gauge)
	}
}

// show sets the metrics of a running move of a claim. If there is no progress or the move has ended, it removes them.
func show(claim types.NamespacedName, progress *v1alpha1.MoveProgress) {
	for _, figure := range running {
		var value *int64
		if progress != nil && !ended(progress.Phase) {
			value = figure.value(progress)
		}
		if value == nil {
			figure.gauge.DeleteLabelValues(claim.Namespace, claim.Name)
		} else {
			figure.gauge.WithLabelValues(claim.Namespace, claim.Name).Set(float64(*value))
		}
	}
}

// observe updates the metrics for a move that has ended.
func observe(progress *v1alpha1.MoveProgress) {
	outcomes.WithLabelValues(string(progress.Phase)).Inc()
	if progress.Phase != v1alpha1.MoveSucceeded {
		return
	}
	bytesMoved.Add(float64(progress.BytesTotal))
	filesMoved.Add(float64(progress.FilesTotal))
	if progress.StartTime != nil && progress.CompletionTime != nil {
		if took := progress.CompletionTime.Sub(progress.StartTime.Time).Seconds(); took > 0 {
			rate.Observe(float64(progress.BytesTotal) / took)
		}
	}
	if progress.DowntimeMilliseconds != nil {
		downtime.Observe(float64(*progress.DowntimeMilliseconds) / 1000)
	}
}
