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

// Budgets of the latency that offloading adds to the start of a pod, in milliseconds, at budgetPace
// pods per second.
const (
	budgetPace     = 100
	addedP50Budget = 50.0
	addedP99Budget = 500.0
)

// paces are rates, in pods per second, and the number of pods to start at each rate. The lower rate
// is for machines that cannot sustain the higher one.
var paces = []struct{ rate, pods int }{{20, 100}, {budgetPace, 300}}

// podStart has the times at which this program's watches observed the start of one pod: bound to
// the virtual node, created on the provider, and Ready on the provider and on the consumer.
type podStart struct{ bound, made, readyRemote, readyLocal time.Time }

// making returns the time from the binding of the local pod to the creation of the remote pod.
func (s podStart) making() time.Duration { return s.made.Sub(s.bound) }

// reporting returns the time from the readiness of the remote pod to the readiness of the local
// pod.
func (s podStart) reporting() time.Duration { return s.readyLocal.Sub(s.readyRemote) }

// added returns the latency that offloading adds to the start of the pod.
func (s podStart) added() time.Duration { return s.making() + s.reporting() }

// startSample has the starts of the pods of one run at a rate in pods per second.
type startSample struct {
	rate   int
	starts []podStart
}

// percentile returns a percentile, in milliseconds, of the durations that the function of returns for the pods.
func (s startSample) percentile(percent int, of func(podStart) time.Duration) float64 {
	var all []time.Duration
	for _, start := range s.starts {
		all = append(all, of(start))
	}
	return milliseconds(percentile(all, percent))
}

// startLog records the start of each pod. Local and remote pods have the same name.
type startLog struct {
	mutex sync.Mutex
	pods  map[string]podStart
}

// local records a state of a local pod.
func (l *startLog) local(pod *corev1.Pod) {
	l.note(pod.Name, func(s *podStart, now time.Time) {
		first(&s.bound, now, pod.Spec.NodeName != "")
		first(&s.readyLocal, now, isReady(pod))
	})
}

// remote records a state of a remote pod.
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

// measureStarts measures the latency that offloading adds to the start of single pods.
func (b *bench) measureStarts(ctx context.Context) ([]row, error) {
	var samples []startSample
	for _, pace := range paces {
		for run := range b.options.runs {
			s, err := b.startPods(ctx, pace.rate, pace.pods)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr,
				"%d pods/s, run %d: bound → remote pod created p50 %.0f ms, p99 %.0f ms; remote pod Ready → local pod Ready "+
					"p50 %.0f ms, p99 %.0f ms\n", pace.rate, run+1,
				s.percentile(50, podStart.making), s.percentile(99, podStart.making), s.percentile(50, podStart.reporting),
				s.percentile(99, podStart.reporting))
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
		if _, err := side.until(ctx, fmt.Sprintf("%d Ready pods in %s", count, side.namespace),
			func(_, ready int) bool { return ready == count }); err != nil {
			return s, err
		}
	}
	if err := b.rome.Kube.CoreV1().Pods(offloaded).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
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

// createPods creates count pods at a constant rate. Requests overlap, so that their latency does
// not limit the rate.
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
			_, err := b.rome.Kube.CoreV1().Pods(offloaded).Create(ctx, singlePod(fmt.Sprintf("one-%d", i)),
				metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// singlePod returns a pod with the spec of the offloaded Deployments' pods.
func singlePod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: deployment(1, onVirtual).Spec.Template.Spec}
}

// percentile returns the latency that percent of all latencies do not exceed, or 0 if there are
// none.
func percentile(latencies []time.Duration, percent int) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[(len(sorted)*percent-1)/100]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
