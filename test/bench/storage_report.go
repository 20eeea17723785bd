// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"liqo.io/federation/test/bench/figures"
)

const (
	// moveRateBudget is how fast a move copies at least, compared with rsync by hand.
	moveRateBudget = 0.9
	// downtimeBudget is how much longer than a restart of the pod an online move may
	// keep it from running, in seconds.
	downtimeBudget = 5.0
)

// moveRows compare the moves of each content with copies by hand, and the time without
// the pod with restarts of the pod.
func moveRows(contents []content, samples []moveSample, baseline restarts) []storageRow {
	var rows []storageRow
	for _, c := range contents {
		of := func(value func(moveSample) float64) (values figures.Series) {
			for _, s := range samples {
				if s.content == c.name {
					values = append(values, value(s))
				}
			}
			return values
		}
		rate, unit := func(seconds float64) float64 { return float64(c.bytes) / 1e6 / seconds }, " MB/s"
		if c.files > 1000 {
			rate, unit = func(seconds float64) float64 { return float64(c.files) / seconds }, " files/s"
		}
		byHand := of(func(s moveSample) float64 { return rate(s.byHand.Seconds()) })
		copying := of(func(s moveSample) float64 { return rate(s.copying().Seconds()) })
		ratio := of(func(s moveSample) float64 { return s.byHand.Seconds() / s.copying().Seconds() })
		stopped := of(func(s moveSample) float64 { return baseline.expected(s.toRemote) })
		outage := of(func(s moveSample) float64 { return s.pod.outage().Seconds() })
		more := of(func(s moveSample) float64 { return s.pod.outage().Seconds() - baseline.expected(s.toRemote) })
		rows = append(
			rows,
			storageRow{
				c.name + ": rsync by hand, and the first pass of a move", byHand.Format(unit), copying.Format(unit),
				ratio.Format("×"), figures.AtLeast(ratio.Median(), moveRateBudget, "×"),
			},
			storageRow{
				c.name + ": the whole move, its pods included", of(func(s moveSample) float64 { return s.byHand.Seconds() }).Format(" s"),
				of(func(s moveSample) float64 { return s.whole().Seconds() }).Format(" s"), "–", "–",
			},
			storageRow{
				c.name + ", 1 % changed: no pod runs, restart and move", stopped.Format(" s"), outage.Format(" s"),
				fmt.Sprintf("%+.1f s", more.Median()), figures.AtMost(more.Median(), downtimeBudget, " s more"),
			},
			storageRow{
				c.name + ", 1 % changed: downtimeMilliseconds", "–",
				of(func(s moveSample) float64 { return s.downtime.Seconds() }).Format(" s"), "–", "–",
			},
		)
	}
	return rows
}

// expected is how long a pod takes to stop in one cluster and to start in the other, in
// seconds.
func (r restarts) expected(toRemote bool) float64 {
	from, to := r.local, r.remote
	if !toRemote {
		from, to = to, from
	}
	var stops, starts figures.Series
	for _, restart := range from {
		stops = append(stops, restart.stop().Seconds())
	}
	for _, restart := range to {
		starts = append(starts, restart.start().Seconds())
	}
	return stops.Median() + starts.Median()
}
