// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventuallyPollsUntilItIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		err := Eventually(t.Context(), time.Minute, "three looks", func(context.Context) (bool, string, error) {
			polls++
			return polls == 3, "", nil
		})
		if err != nil || polls != 3 {
			t.Errorf("got error %v after %d polls, want none after 3", err, polls)
		}
	})
}

func TestEventuallyReportsTheLastObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		err := Eventually(t.Context(), time.Minute, "the node to be Ready", func(context.Context) (bool, string, error) {
			if first {
				first = false
				return false, "", errors.New("connection refused")
			}
			return false, "Ready=Unknown", nil
		})
		if err == nil {
			t.Fatal("no error although it never became true")
		}
		for _, want := range []string{"1m0s", "the node to be Ready", "Ready=Unknown"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not mention %q", err, want)
			}
		}
	})
}

func TestEventuallyGivesUpOnAPermanentError(t *testing.T) {
	broken := errors.New("the job has failed")
	err := Eventually(t.Context(), time.Hour, "the job", func(context.Context) (bool, string, error) {
		return false, "", Permanent(broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the permanent error", err)
	}
}

func TestConsistentlyFailsWhenItIsNoLongerTrue(t *testing.T) {
	for _, test := range []struct {
		name    string
		breakAt time.Duration
		want    string
	}{
		{"true all the time", time.Hour, ""},
		{"false half way", 30 * time.Second, "phase Failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := Consistently(t.Context(), time.Minute, "the pod runs", func(context.Context) (bool, string, error) {
					return time.Since(start) < test.breakAt, "phase Failed", nil
				})
				if test.want == "" {
					if err != nil || time.Since(start) < time.Minute {
						t.Errorf("got %v after %s, want none after a minute", err, time.Since(start))
					}
				} else if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want an error that mentions %q", err, test.want)
				}
			})
		})
	}
}
