// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/bench/figures"
)

// The budget of the additional latency of a pod's start, in milliseconds, at budgetPace pods per
// second.
const (
	budgetPace     = 100
	addedP50Budget = 50.0
	addedP99Budget = 500.0
)

// paces are the numbers of pods per second, and of pods. The slower one is for machines that cannot
// sustain the faster.
var paces = []struct{ rate, pods int }{{20, 100}, {budgetPace, 300}}

// podStart has the times of the states of one pod. Both watches are of this program, so all times are
// by one clock.
type podStart struct{ bound, made, readyRemote, readyLocal time.Time }

// making is the time from the binding of the local pod to the creation of the remote pod.
func (s podStart) making() time.Duration { return s.made.Sub(s.bound) }

// reporting is the time from the readiness of the remote pod to that of the local pod.
func (s podStart) reporting() time.Duration { return s.readyLocal.Sub(s.readyRemote) }

// added is the latency that offloading adds.
func (s podStart) added() time.Duration { return s.making() + s.reporting() }

// startSample are the starts of pods at one pace.
type startSample struct {
	rate   int
	starts []podStart
}

// percentile is in milliseconds.
func (s startSample) percentile(percent int, of func(podStart) time.Duration) float64 {
	var all []time.Duration
	for _, start := range s.starts {
		all = append(all, of(start))
	}
	return milliseconds(percentile(all, percent))
}

// startLog records the starts of pods by name, which is the same on both clusters.
type startLog struct {
	mutex sync.Mutex
	pods  map[string]podStart
}

// local records an event of rome's watch.
func (l *startLog) local(pod *corev1.Pod) {
	l.note(pod.Name, func(s *podStart, now time.Time) {
		first(&s.bound, now, pod.Spec.NodeName != "")
		first(&s.readyLocal, now, isReady(pod))
	})
}

// remote records an event of milan's watch.
func (l *startLog) remote(pod *corev1.Pod) {
	l.note(pod.Name, func(s *podStart, now time.Time) {
		first(&s.made, now, true)
		first(&s.readyRemote, now, isReady(pod))
	})
}

func (l *startLog) note(name string, take func(*podStart, time.Time)) {
	now := time.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	s := l.pods[name]
	take(&s, now)
	l.pods[name] = s
}

func first(moment *time.Time, now time.Time, is bool) {
	if is && moment.IsZero() {
		*moment = now
	}
}

// measureStarts measures the additional latency of pods that are created one by one.
func (b *bench) measureStarts(ctx context.Context) ([]row, error) {
	var samples []startSample
	for _, pace := range paces {
		for run := range b.options.runs {
			s, err := b.startPods(ctx, pace.rate, pace.pods)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "%d pods/s, run %d: bound here → there p50 %.0f ms, p99 %.0f ms; Ready there → here p50 %.0f ms, p99 %.0f ms\n", pace.rate, run+1,
				s.percentile(50, podStart.making), s.percentile(99, podStart.making), s.percentile(50, podStart.reporting), s.percentile(99, podStart.reporting))
			samples = append(samples, s)
		}
	}
	return startRows(samples), nil
}

func startRows(samples []startSample) []row {
	var rows []row
	for _, pace := range paces {
		for _, line := range []struct {
			percent int
			budget  float64
		}{{50, addedP50Budget}, {99, addedP99Budget}} {
			var values figures.Series
			for _, s := range samples {
				if s.rate == pace.rate {
					values = append(values, s.percentile(line.percent, podStart.added))
				}
			}
			budget := "–"
			if pace.rate == budgetPace {
				budget = figures.AtMost(values.Median(), line.budget, " ms")
			}
			rows = append(rows, row{
				fmt.Sprintf("added to the start of a pod at %d pods/s, p%d", pace.rate, line.percent),
				fmt.Sprint(pace.pods), "–", values.Format(" ms"), "–", budget,
			})
		}
	}
	return rows
}

// startPods creates pods at a constant rate, waits until the local pods are Ready, and deletes them.
func (b *bench) startPods(ctx context.Context, rate, count int) (startSample, error) {
	s := startSample{rate: rate}
	log := &startLog{pods: map[string]podStart{}}
	local, err := watchPods(ctx, b.rome, offloaded, log.local)
	if err != nil {
		return s, err
	}
	defer local.stop()
	remote, err := watchPods(ctx, b.milan, b.remote, log.remote)
	if err != nil {
		return s, err
	}
	defer remote.stop()
	if err := b.quiet(ctx); err != nil {
		return s, err
	}
	if err := b.createPods(ctx, rate, count); err != nil {
		return s, err
	}
	for _, side := range []*podWatch{local, remote} {
		if _, err := side.until(ctx, fmt.Sprintf("%d Ready pods in %s", count, side.namespace), func(_, ready int) bool { return ready == count }); err != nil {
			return s, err
		}
	}
	if err := b.rome.Kube.CoreV1().Pods(offloaded).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return s, err
	}
	for _, side := range []*podWatch{local, remote} {
		if _, err := side.until(ctx, "no pods in "+side.namespace, func(all, _ int) bool { return all == 0 }); err != nil {
			return s, err
		}
	}
	log.mutex.Lock()
	defer log.mutex.Unlock()
	for _, start := range log.pods {
		s.starts = append(s.starts, start)
	}
	return s, nil
}

// createPods creates one pod per tick, concurrently, so that the latency of the API server does not
// limit the rate.
func (b *bench) createPods(ctx context.Context, rate, count int) error {
	const underWay = 32
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(underWay)
	for i := range count {
		select {
		case <-ctx.Done():
			return cmp.Or(group.Wait(), ctx.Err())
		case <-ticker.C:
		}
		group.Go(func() error {
			_, err := b.rome.Kube.CoreV1().Pods(offloaded).Create(ctx, singlePod(fmt.Sprintf("one-%d", i)), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// singlePod returns a pod like those of the offloaded Deployments.
func singlePod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: deployment(1, onVirtual).Spec.Template.Spec}
}

// percentile returns the latency that percent of all do not exceed.
func percentile(latencies []time.Duration, percent int) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[(len(sorted)*percent-1)/100]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
