// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"--parts", ""}, {"--parts", "idle,x"}, {"--runs", "0"}, {"--period", "0s"},
		{"--colour"}} {
		if o, err := parse(args); err == nil {
			t.Errorf("%v gave %+v and no error", args, o)
		}
	}
}

func TestTheLongestGapIsThatBetweenTwoAnswers(t *testing.T) {
	var b beats
	at := func(milliseconds int) time.Time {
		return time.Unix(1, 0).Add(time.Duration(milliseconds) * time.Millisecond)
	}
	for _, answered := range []int{0, 10, 20, 520, 530, 540} {
		b.answered(at(answered))
	}
	if got := b.longest(); got != 500*time.Millisecond {
		t.Errorf("the longest gap is %s, not 500ms", got)
	}
	if b.steady != at(520) {
		t.Errorf("packets are answered steadily since %s, not since %s", b.steady, at(520))
	}
	b.reset()
	b.answered(at(560))
	if got := b.longest(); got != 20*time.Millisecond {
		t.Errorf("after a reset, the longest gap is %s, not 20ms", got)
	}
}
