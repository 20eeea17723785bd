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

// What design decided offloading may add to the start of a pod, in milliseconds,
// at budgetPace pods a second.
const (
	budgetPace     = 100
	addedP50Budget = 50.0
	addedP99Budget = 500.0
)

// paces are how many pods a second come one by one, and how many of them. The
// slower one tells what a machine adds that has no time for the faster.
var paces = []struct{ rate, pods int }{{20, 100}, {budgetPace, 300}}

// podStart is when one pod was first seen in the states on its way. The watches
// of both clusters are this program's, so one clock tells them all.
type podStart struct{ bound, made, readyThere, readyHere time.Time }

// making is how long a pod that was bound here waited to be there.
func (s podStart) making() time.Duration { return s.made.Sub(s.bound) }

// telling is how long a pod that was Ready there was not yet here.
func (s podStart) telling() time.Duration { return s.readyHere.Sub(s.readyThere) }

// added is what offloading added to the start.
func (s podStart) added() time.Duration { return s.making() + s.telling() }

// startSample are the starts of pods that came at one pace.
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

// startLog notes the starts of pods by their names, which are the same on both
// sides.
type startLog struct {
	mutex sync.Mutex
	pods  map[string]podStart
}

// here is called with what rome's watch tells.
func (l *startLog) here(pod *corev1.Pod) {
	l.note(pod.Name, func(s *podStart, now time.Time) {
		first(&s.bound, now, pod.Spec.NodeName != "")
		first(&s.readyHere, now, isReady(pod))
	})
}

// there is called with what milan's watch tells.
func (l *startLog) there(pod *corev1.Pod) {
	l.note(pod.Name, func(s *podStart, now time.Time) {
		first(&s.made, now, true)
		first(&s.readyThere, now, isReady(pod))
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

// measureStarts finds what offloading adds to the starts of pods that come one
// by one.
func (b *bench) measureStarts(ctx context.Context) ([]row, error) {
	var samples []startSample
	for _, pace := range paces {
		for run := range b.options.runs {
			s, err := b.startPods(ctx, pace.rate, pace.pods)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "%d pods/s, run %d: bound here → there p50 %.0f ms, p99 %.0f ms; Ready there → here p50 %.0f ms, p99 %.0f ms\n", pace.rate, run+1,
				s.percentile(50, podStart.making), s.percentile(99, podStart.making), s.percentile(50, podStart.telling), s.percentile(99, podStart.telling))
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

// startPods creates pods at an even pace, and waits until they are Ready here,
// and then until they are gone.
func (b *bench) startPods(ctx context.Context, rate, count int) (startSample, error) {
	s := startSample{rate: rate}
	log := &startLog{pods: map[string]podStart{}}
	here, err := watchPods(ctx, b.rome, offloaded, log.here)
	if err != nil {
		return s, err
	}
	defer here.stop()
	there, err := watchPods(ctx, b.milan, b.twin, log.there)
	if err != nil {
		return s, err
	}
	defer there.stop()
	if err := b.quiet(ctx); err != nil {
		return s, err
	}
	if err := b.createPods(ctx, rate, count); err != nil {
		return s, err
	}
	for _, side := range []*podWatch{here, there} {
		if _, err := side.until(ctx, fmt.Sprintf("%d Ready pods in %s", count, side.namespace), func(_, ready int) bool { return ready == count }); err != nil {
			return s, err
		}
	}
	if err := b.rome.Kube.CoreV1().Pods(offloaded).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return s, err
	}
	for _, side := range []*podWatch{here, there} {
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

// createPods sends one pod a tick. Some may be under way at once, or the answers
// of a busy API server would set the pace.
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

// singlePod is a pod as the offloaded Deployments have them.
func singlePod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: deployment(1, away).Spec.Template.Spec}
}

// percentile is what so many in a hundred do not exceed.
func percentile(latencies []time.Duration, percent int) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[(len(sorted)*percent-1)/100]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
