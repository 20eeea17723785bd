// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent keeps the heap small: nearly all of it are caches, which live
	// long, and memory is what many virtual kubelets in one cluster cost.
	gcPercent = 40
	// leastMemory is what the runtime may always take, and spareMemory what it may
	// for what is between the objects of its heap, in bytes.
	leastMemory, spareMemory = 36 << 20, 4 << 20
	// memoryEvery is how often it is looked at how much there is.
	memoryEvery = 250 * time.Millisecond
)

// keepSmall has the runtime give memory back that a burst of pods took, until the
// context ends: without a limit the most that was ever taken stays. The limit
// follows what lives, or a virtual kubelet with many pods would do nothing but
// collect. Who sets GOGC or GOMEMLIMIT decides instead.
func keepSmall(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	const heap = "/memory/classes/heap/"
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: heap + "objects:bytes"}, {Name: heap + "unused:bytes"}, {Name: heap + "free:bytes"}, {Name: heap + "released:bytes"},
	}
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		metrics.Read(read)
		beside := read[1].Value.Uint64()
		for _, part := range read[2:] {
			beside -= part.Value.Uint64()
		}
		debug.SetMemoryLimit(memoryLimit(read[0].Value.Uint64(), beside))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// memoryLimit is what the runtime may take while so many bytes live in its heap,
// and so many it has beside that, as stacks.
func memoryLimit(live, beside uint64) int64 {
	return int64(max(leastMemory, live+live*gcPercent/100+beside+spareMemory))
}
