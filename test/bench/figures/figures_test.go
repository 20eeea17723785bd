// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import "testing"

func TestMedianAndSpread(t *testing.T) {
	for _, test := range []struct {
		values Series
		median float64
		shown  string
	}{
		{nil, 0, "–"},
		{Series{3}, 3, "3.00 s (3.00–3.00)"},
		{Series{5, 1, 30}, 5, "5.00 s (1.00–30.0)"},
		{Series{1, 2, 3, 400}, 2.5, "2.50 s (1.00–400)"},
	} {
		if got := test.values.Median(); got != test.median {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.median)
		}
		if got := test.values.Format(" s"); got != test.shown {
			t.Errorf("%v is shown as %q, want %q", test.values, got, test.shown)
		}
	}
}

func TestBudgetsAreJudged(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{AtMost(3, 3, "×"), "≤ 3× ✓"},
		{AtMost(3.1, 3, " s"), "≤ 3 s ✗"},
		{AtLeast(0.7, 0.7, "×"), "≥ 0.7× ✓"},
		{AtLeast(0.69, 0.7, "×"), "≥ 0.7× ✗"},
		{AtLeast(0.69, 0, "×"), "–"},
	} {
		if test.got != test.want {
			t.Errorf("%q, not %q", test.got, test.want)
		}
	}
}
