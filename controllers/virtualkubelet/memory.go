// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

const (
	// growth is how much garbage there may be beside what lives, as a part of a
	// hundred: nearly all of that are caches, and memory is what many virtual
	// kubelets in one cluster cost.
	growth = 30
	// leastMemory is what the runtime may always take, and spareMemory what it may
	// beside what is accounted for, in bytes.
	leastMemory, spareMemory = 25 << 20, 1 << 20
	// memoryEvery is how often it is looked at how much there is, and looks for how
	// many of these looks room between objects is there to stay.
	memoryEvery, looks = 250 * time.Millisecond, 8
)

// keepSmall has the runtime give memory back that a burst of pods took, until the
// context ends: without a limit the most that was ever taken stays. The limit
// follows what lives, or a virtual kubelet with many pods would do nothing but
// collect. Who sets GOMEMLIMIT decides instead.
func keepSmall(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	const heap = "/memory/classes/heap/"
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: heap + "objects:bytes"}, {Name: heap + "unused:bytes"}, {Name: heap + "free:bytes"}, {Name: heap + "released:bytes"},
	}
	// A collection leaves room between objects. Most of it is filled before the next
	// one; the least of some looks is what nothing fits in.
	var unused [looks]uint64
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for look := 0; ; look = (look + 1) % looks {
		metrics.Read(read)
		beside := read[1].Value.Uint64()
		for _, part := range read[2:] {
			beside -= part.Value.Uint64()
		}
		unused[look] = read[3].Value.Uint64()
		debug.SetMemoryLimit(memoryLimit(read[0].Value.Uint64(), beside+slices.Min(unused[:])))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// memoryLimit is what the runtime may take while so many bytes live in its heap,
// and so many it has beside that, as stacks and what no object fits in.
func memoryLimit(live, beside uint64) int64 {
	return int64(max(leastMemory, live+live*growth/100+beside+spareMemory))
}
