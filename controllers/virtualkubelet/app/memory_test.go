// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

func TestMemoryLimitFollowsLiveObjects(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct{ live, beside, want int64 }{
		{0, 0, leastMemory},
		{5 * mb, 5 * mb, leastMemory},
		{14 * mb, 5 * mb, leastMemory},
		{30 * mb, 6 * mb, 46 * mb},
		{30 * mb, 60 * mb, 100 * mb},
		{200 * mb, 10 * mb, 271 * mb},
	} {
		if got := memoryLimit(uint64(test.live), uint64(test.beside)); got != test.want {
			t.Errorf("with %d and %d MB it is %d MB, and not %d", test.live/mb, test.beside/mb, got/mb, test.want/mb)
		}
	}
}
