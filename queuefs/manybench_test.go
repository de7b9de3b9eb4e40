package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
)

// BenchmarkCreateQueue makes queues by 16 clients at once.
func BenchmarkCreateQueue(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "home")
	must(b, queuefs.Init(dir, queuefs.ServiceInfo{Name: "bench"}))
	s := openBare(b, dir, queuefs.Options{})
	var n atomic.Int64
	b.SetParallelism(16 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprint("q", n.Add(1))}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	closeHome(b, s)
}

// BenchmarkManyQueues opens a home of 10,000 queues with a job each after a clean stop,
// and tells the memory of a queue.
func BenchmarkManyQueues(b *testing.B) {
	const queues = 10_000
	dir := filepath.Join(fastDir(b), "home")
	must(b, queuefs.Init(dir, queuefs.ServiceInfo{Name: "bench"}))
	s := openBare(b, dir, queuefs.Options{})
	for n := range queues {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprint("q", n)})
		must(b, err)
		submit(b, q, queuefs.Meta{}, "x")
	}
	closeHome(b, s)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var took float64
	for b.Loop() {
		before := heap()
		s, err := queuefs.Open(dir, queuefs.Options{})
		must(b, err)
		took = heap() - before
		closeHome(b, s)
	}
	b.ReportMetric(took/queues, "bytes/queue")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/queues, "µs/queue")
	os.RemoveAll(dir)
}
