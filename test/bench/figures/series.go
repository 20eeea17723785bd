// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures is what benchmarks have in common: values of several runs, what
// they are compared with, and the machine that they were measured on.
package figures

import (
	"fmt"
	"slices"
)

// Series are the values of one measure in all runs.
type Series []float64

// Median is the middle value; 0 of none.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Format shows the median, and from where to where the values spread.
func (s Series) Format(unit string) string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s%s (%s–%s)", Number(s.Median()), unit, Number(slices.Min(s)), Number(slices.Max(s)))
}

// Number shows three digits that matter.
func Number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
