// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestInterruptedCallsAreRetried(t *testing.T) {
	interrupted, other := fmt.Errorf("reading: %w", unix.EINTR), errors.New("no luck")
	for _, test := range []struct {
		name  string
		come  []error // results of consecutive calls
		calls int
		want  error
	}{
		{"success at once", []error{nil}, 1, nil},
		{"interrupted twice", []error{interrupted, interrupted, nil}, 3, nil},
		{"inconsistent dump", []error{netlink.ErrDumpInterrupted, nil}, 2, nil},
		{"interrupted four times", append(slices.Repeat([]error{interrupted}, 4), nil), 5, nil},
		{"interrupted each time", slices.Repeat([]error{interrupted}, 6), 5, unix.EINTR},
		{"failed", []error{other, nil}, 1, other},
		{"interrupted, then failed", []error{interrupted, other, nil}, 2, other},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			err := retry(func() error {
				calls++
				return test.come[calls-1]
			})
			if calls != test.calls || !errors.Is(err, test.want) {
				t.Errorf("after %d calls: %v", calls, err)
			}
		})
	}
}
