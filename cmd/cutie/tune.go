package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"cutie/queuefs"
)

// tune sets what a daemon of this kind wants of the runtime, unless the
// environment says otherwise.
func tune() {
	// A sync holds its thread for the length of a disk write, so there are
	// more threads than cores to run Go code meanwhile.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	}
	// The live heap is small beside the garbage of requests: the index has no
	// pointers and payloads are not kept.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	(&budget{}).set(0)
}

// memory is what the daemon may take before it collects garbage sooner than it
// likes to, in octets, of which heapLeast are always for the heap. The index,
// 128 MiB for a million jobs, is outside of the heap and goes first.
const (
	memory    = 224 << 20
	heapLeast = 96 << 20
)

// A budget divides the memory between the index and the heap.
type budget struct{ limit int64 }

func (b *budget) set(index int64) {
	limit := max(memory-index, heapLeast)
	// To set it stops the world, if only for a moment.
	if d := limit - b.limit; d > -(4<<20) && d < 4<<20 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	b.limit = limit
	debug.SetMemoryLimit(limit)
}

// follow sets the limit by the index of the moment.
func (b *budget) follow(svc *queuefs.Service) func(context.Context) error {
	return plain(func() error {
		b.set(svc.IndexSize())
		return nil
	})
}
