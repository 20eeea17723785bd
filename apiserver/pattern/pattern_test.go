// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pattern

import "testing"

func TestStarMatchesAnyCharacters(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"web", "web", true},
		{"web", "web-2", false},
		{"team-a-*", "team-a-web", true},
		{"team-a-*", "team-a-", true},
		{"team-a-*", "team-a", false},
		{"*.istio.io/*", "sidecar.istio.io/inject", false},
		{"*/inject", "sidecar.istio.io/inject", true},
		{"sidecar.*/inject", "sidecar.istio.io/inject", true},
		{"ab*ba", "aba", false},
		{"ab*ba", "abba", true},
		{Any, "nvidia.com/gpu", true},
		{Any, "", true},
	} {
		if got := Matches(test.pattern, test.name); got != test.want {
			t.Errorf("%q matches %q: got %t, want %t", test.pattern, test.name, got, test.want)
		}
	}
}

func TestPatternsHaveAtMostOneStar(t *testing.T) {
	for pattern, want := range map[string]bool{"web": true, "*": true, "a*b": true, "": false, "*a*": false} {
		if err := Validate(pattern); (err == nil) != want {
			t.Errorf("%q: got %v, want valid: %t", pattern, err, want)
		}
	}
}
