// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"liqo.io/federation/test/bench/figures"
)

const (
	// moveRateBudget is the minimal ratio of the transfer rate of a move to the rate of rsync.
	moveRateBudget = 0.9
	// downtimeBudget is the maximal time, in seconds, by which an online move stops the pod longer
	// than a restart of the pod does.
	downtimeBudget = 5.0
)

// moveRows returns the rows that compare moves with copies by rsync, and the outage of the pod
// during a move with its outage during a restart.
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
				c.name + ": rsync, and first pass of a move", byHand.Format(unit), copying.Format(unit),
				ratio.Format("×"), figures.AtLeast(ratio.Median(), moveRateBudget, "×"),
			},
			storageRow{
				c.name + ": rsync, and whole move with its pods",
				of(func(s moveSample) float64 { return s.byHand.Seconds() }).Format(" s"),
				of(func(s moveSample) float64 { return s.whole().Seconds() }).Format(" s"), "–", "–",
			},
			storageRow{
				c.name + ", 1 % changed: outage of the pod, restart and move", stopped.Format(" s"), outage.Format(" s"),
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

// expected returns the seconds that a pod needs to stop in the cluster of the source and to start
// in the cluster of the target, without a move.
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
