// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures formats results of benchmarks: values of several runs, budgets, and the machine.
package figures

import (
	"fmt"
	"slices"
)

// Series has the values of one measure, one for each run.
type Series []float64

// Median returns the median of the values, or 0 if there are none.
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

// Format returns the median of the values with their minimum and maximum.
func (s Series) Format(unit string) string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s%s (%s–%s)", Number(s.Median()), unit, Number(slices.Min(s)), Number(slices.Max(s)))
}

// Number formats v with three significant digits.
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
