// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import "testing"

func TestTheMemoryLimitFollowsWhatLives(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct{ live, want int64 }{
		{0, leastMemory},
		{5 * mb, leastMemory},
		{20 * mb, leastMemory},
		{30 * mb, 50 * mb},
		{200 * mb, 288 * mb},
	} {
		if got := memoryLimit(uint64(test.live)); got != test.want {
			t.Errorf("with %d MB it is %d MB, and not %d", test.live/mb, got/mb, test.want/mb)
		}
	}
}
