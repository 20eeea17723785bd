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
	// growth is the garbage that is allowed in addition to live objects, in percent: nearly all of
	// these are caches, and memory is the cost of many virtual kubelets in a cluster.
	growth = 30
	// leastMemory is the memory that the runtime may always use, and spareMemory what it may use
	// in addition to what is accounted for, in bytes.
	leastMemory, spareMemory = 25 << 20, 1 << 20
	// memoryEvery is the time between two measurements, and looks the number of them after which
	// unused room between objects counts as permanent.
	memoryEvery, looks = 250 * time.Millisecond, 8
)

// keepSmall makes the runtime release the memory of a burst of pods, until the context ends:
// without a limit the highest amount would stay. The limit follows the live objects, or a virtual
// kubelet with many pods would do nothing but collect garbage. GOMEMLIMIT takes precedence.
func keepSmall(ctx context.Context) {
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
	// A collection leaves room between objects, most of which is filled before the next one. The
	// least of several measurements is room that nothing fits in.
	var unused [looks]uint64
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for look := 0; ; look = (look + 1) % looks {
		metrics.Read(read)
		inUse := read[1].Value.Uint64()
		for _, part := range read[2:] {
			inUse -= part.Value.Uint64()
		}
		unused[look] = read[3].Value.Uint64()
		debug.SetMemoryLimit(memoryLimit(read[0].Value.Uint64(), inUse+slices.Min(unused[:])))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// memoryLimit returns the memory that the runtime may use with so many live bytes in its heap, and
// so many used in addition, for example by stacks and fragmentation.
func memoryLimit(live, inUse uint64) int64 {
	return int64(max(leastMemory, live+live*growth/100+inUse+spareMemory))
}
