package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

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
	(&budget{}).set(heapLeast) // until it is known how large the index is
}

// memory is what the daemon may take before it collects garbage sooner than it
// likes to, in octets, of which heapLeast are always for the heap. The index,
// 128 MiB for a million jobs, is outside of the heap and goes first. What comes
// on top, the program and the buffers of large batches, takes 35 MiB or so, and
// all together stays below 250 MB.
const (
	memory    = 190 << 20
	heapLeast = 62 << 20
)

// limitFor is the limit of the memory of Go, where live octets of it were no
// garbage: thousands of clients who wait take some 20 KiB each. To collect them
// again and again would not make them less, so a third of it is for garbage.
func limitFor(index, live int64) int64 {
	return max(memory-index, heapLeast, live+live/2)
}

// A budget divides the memory between the index and the heap.
type budget struct {
	limit int64
	live  [2]metrics.Sample
}

func (b *budget) set(limit int64) {
	// To set it stops the world, if only for a moment.
	if d := limit - b.limit; d > -(4<<20) && d < 4<<20 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	b.limit = limit
	debug.SetMemoryLimit(limit)
}

// follow sets the limit by the index and the heap of the moment.
func (b *budget) follow(svc *queuefs.Service) func(context.Context) error {
	b.live[0].Name, b.live[1].Name = "/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes"
	return plain(func() error {
		metrics.Read(b.live[:])
		b.set(limitFor(svc.IndexSize(), int64(b.live[0].Value.Uint64()+b.live[1].Value.Uint64())))
		return nil
	})
}
