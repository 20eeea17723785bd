// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

func TestMemoryLimitFollowsLiveObjects(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct{ live, inUse, want int64 }{
		{0, 0, minMemory},
		{5 * mb, 5 * mb, minMemory},
		{14 * mb, 5 * mb, minMemory},
		{30 * mb, 6 * mb, 46 * mb},
		{30 * mb, 60 * mb, 100 * mb},
		{200 * mb, 10 * mb, 271 * mb},
	} {
		if got := memoryLimit(uint64(test.live), uint64(test.inUse)); got != test.want {
			t.Errorf("with %d and %d MB: %d MB, want %d", test.live/mb, test.inUse/mb, got/mb, test.want/mb)
		}
	}
}
