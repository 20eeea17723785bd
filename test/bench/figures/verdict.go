// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import "fmt"

// AtMost tells a budget that a value must not exceed, and whether it does.
func AtMost(value, budget float64, unit string) string {
	return fmt.Sprintf("≤ %g%s %s", budget, unit, mark(value <= budget))
}

// AtLeast tells a budget that a value must reach, and whether it does; 0: there
// is none.
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
