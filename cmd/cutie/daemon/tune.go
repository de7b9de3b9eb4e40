package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"cutie/queuefs"
)

// tune sets the runtime up for the daemon, unless the environment says otherwise. Until
// done is called the limit of memory follows the heap alone, as the home is opened.
func tune() (done func()) {
	// A sync holds its thread for the length of a disk write, so there are
	// more threads than cores to run Go code meanwhile.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	}
	// The live heap is small beside the garbage of requests: the index has no
	// pointers and payloads are not kept. The limit of memory ends the growth.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	b, stop := newBudget(), make(chan struct{})
	b.opening() // until it is known how large the index is
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				b.opening()
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop) })
}

// memory is the size in bytes above which garbage is collected more often;
// heapLeast of it are always for the heap. The index, 128 MiB for a million jobs,
// is outside of the heap and goes first. The program and the buffers of large
// batches take 35 MiB or so besides, and all together stays below 250 MB.
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
	held  [2]metrics.Sample
	kept  int64 // held after the last giveBack
}

func newBudget() *budget {
	b := new(budget)
	b.live[0].Name, b.live[1].Name = "/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes"
	b.held[0].Name, b.held[1].Name = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	return b
}

// inUse returns the live bytes of the heap and the stacks.
func (b *budget) inUse() int64 {
	metrics.Read(b.live[:])
	return int64(b.live[0].Value.Uint64() + b.live[1].Value.Uint64())
}

func (b *budget) set(limit int64) {
	// To set it stops the world, if only for a moment.
	if d := limit - b.limit; d > -(4<<20) && d < 4<<20 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	b.limit = limit
	debug.SetMemoryLimit(limit)
}

// opening sets the limit while a home is opened: what is live grows all the time then,
// and most of it stays.
func (b *budget) opening() {
	live := b.inUse()
	b.set(live + max(live/2, 96<<20))
}

// follow sets the limit by the index and the heap of the moment. The index is measured
// after changes alone: its size is a sum over all queues. Once there was no change for calm
// calls, unused memory goes back to the system.
func (b *budget) follow(svc *queuefs.Service) func() error {
	var seen uint64
	var index int64
	var still int
	return func() error {
		changed, now := svc.Changed(seen)
		still++
		if seen = now; len(changed) > 0 {
			index, still = svc.IndexSize(), 0
		}
		b.set(limitFor(index, b.inUse()))
		if still >= calm {
			b.giveBack()
		}
		return nil
	}
}

// calm is how many calls of follow without a change end a burst.
const calm = 10

// giveBack collects garbage, and gives the memory back, if more is held than after the
// last time, so much that it is worth it.
func (b *budget) giveBack() {
	if b.holds() > b.kept+b.kept/4+48<<20 {
		debug.FreeOSMemory()
		b.kept = b.holds()
	}
}

// holds returns the bytes of memory given by the system.
func (b *budget) holds() int64 {
	metrics.Read(b.held[:])
	return int64(b.held[0].Value.Uint64() - b.held[1].Value.Uint64())
}
