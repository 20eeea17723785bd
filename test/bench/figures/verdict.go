// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import "fmt"

// AtMost returns a table cell with the budget as an upper limit, and a mark that shows whether the
// value is within it.
func AtMost(value, budget float64, unit string) string {
	return fmt.Sprintf("≤ %g%s %s", budget, unit, mark(value <= budget))
}

// AtLeast returns a table cell with the budget as a lower limit, and a mark that shows whether the
// value reaches it. A budget of 0 is no limit.
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
