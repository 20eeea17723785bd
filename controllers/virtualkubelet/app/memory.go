// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

const (
	// heapGrowthPercent is the growth of the heap, in percent of the live objects, after which a garbage collection
	// starts, as in GOGC. It is lower than the default because caches are most of the heap, and a cluster may run many
	// virtual kubelets.
	heapGrowthPercent = 30
	// minMemory is the lower bound of the memory limit, and reserve is added to the measured memory, in bytes.
	minMemory, reserve = 25 << 20, 1 << 20
	// memoryInterval is the time between two measurements. The minimum of the unused memory in the last window
	// measurements is counted as fragmentation.
	memoryInterval, window = 250 * time.Millisecond, 8
)

// adaptMemoryLimit sets the memory limit of the Go runtime from the size of live objects, until the context ends.
// Without a limit, the memory used in a burst of pods would not be released; with a constant limit, a virtual kubelet
// with many pods would collect garbage permanently. It does nothing if GOMEMLIMIT is set.
func adaptMemoryLimit(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	const heap = "/memory/classes/heap/"
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{
			Name: heap + "objects:bytes",
		},
		{Name: heap + "unused:bytes"},
		{Name: heap + "free:bytes"},
		{Name: heap + "released:bytes"},
	}
	// Most memory that is unused after a garbage collection is used again before the next one. The minimum of several
	// measurements stays unused and counts as fragmentation.
	var unused [window]uint64
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % window {
		metrics.Read(read)
		inUse := read[1].Value.Uint64()
		for _, part := range read[2:] {
			inUse -= part.Value.Uint64()
		}
		unused[i] = read[3].Value.Uint64()
		debug.SetMemoryLimit(memoryLimit(read[0].Value.Uint64(), inUse+slices.Min(unused[:])))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// memoryLimit returns the memory limit in bytes for the live bytes of the heap and the bytes in use outside it, for
// example by stacks and fragmentation.
func memoryLimit(live, inUse uint64) int64 {
	return int64(max(minMemory, live+live*heapGrowthPercent/100+inUse+reserve))
}
