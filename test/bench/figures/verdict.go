// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import "fmt"

// AtMost returns an upper budget, and whether the value meets it.
func AtMost(value, budget float64, unit string) string {
	return fmt.Sprintf("≤ %g%s %s", budget, unit, mark(value <= budget))
}

// AtLeast returns a lower budget, and whether the value meets it. 0 is no budget.
func AtLeast(value, budget float64, unit string) string {
	if budget == 0 {
		return "–"
	}
	return fmt.Sprintf("≥ %g%s %s", budget, unit, mark(value >= budget))
}

func mark(kept bool) string {
	if kept {
		return "✓"
	}
	return "✗"
}
