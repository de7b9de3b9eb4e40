package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/journal/segment"
)

// benchHome opens a home with the journal segments of real use.
func benchHome(b *testing.B) (*queuefs.Service, *queuefs.Queue) {
	s, q := openHome(b, b.TempDir(), queuefs.Options{Segment: segment.MaxSize})
	b.Cleanup(func() { closeHome(b, s) })
	return s, q
}

// parallel runs do b.N times on so many goroutines.
func parallel(b *testing.B, n int, do func()) {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				do()
			}
		})
	}
	wg.Wait()
}

func BenchmarkSubmit(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		data := strings.Repeat("x", size)
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/clients=%d", size, clients), func(b *testing.B) {
				_, q := benchHome(b)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				b.ResetTimer()
				parallel(b, clients, func() { submit(b, q, queuefs.Meta{Submitter: "bench"}, data) })
				b.StopTimer()
			})
		}
	}
}

func BenchmarkConsume(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			_, q := benchHome(b)
			fillQueue(b, q, b.N, 1<<10)
			b.ReportAllocs()
			b.ResetTimer()
			parallel(b, clients, func() {
				j, err := q.Next(ctx, "bench")
				if err != nil {
					panic(err)
				}
				p, err := q.Payload(j.ID)
				if err != nil {
					b.Error(err)
					return
				}
				p.Close()
			})
			b.StopTimer()
		})
	}
}

// BenchmarkEventsFollow submits a job and lets so many followers read its
// event, as often as there is one. What reading takes of an operation, of all
// followers together, is reading-ns/op.
func BenchmarkEventsFollow(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		data := strings.Repeat("x", size)
		for _, followers := range []int{1, 4} {
			b.Run(fmt.Sprintf("size=%d/followers=%d", size, followers), func(b *testing.B) {
				_, q := benchHome(b)
				var reading time.Duration
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					j := submit(b, q, queuefs.Meta{MediaType: "text/plain"}, data)
					began := time.Now()
					for range followers {
						if events, err := q.Events(j.Seq-1, 100); err != nil || len(events) != 1 {
							b.Fatalf("got %d events, %v", len(events), err)
						}
					}
					reading += time.Since(began)
				}
				b.StopTimer()
				b.ReportMetric(float64(reading.Nanoseconds())/float64(b.N), "reading-ns/op")
			})
		}
	}
}

// BenchmarkJournaled reads events with their parts, as the publisher follows a burst.
func BenchmarkJournaled(b *testing.B) {
	_, q := benchHome(b)
	fillQueue(b, q, 20_000, 1<<10)
	b.ReportAllocs()
	b.ResetTimer()
	at, last := queuefs.Seq(0), q.Seq()
	for n := 0; n < b.N; {
		events, err := q.Journaled(at, 512, 1<<20)
		if err != nil || len(events) == 0 {
			b.Fatalf("after event %d: got %d events, %v", at, len(events), err)
		}
		n += len(events)
		if at = events[len(events)-1].Seq; at == last {
			at = 0
		}
	}
}

// fillQueue submits n jobs in batches.
func fillQueue(b testing.TB, q *queuefs.Queue, n, size int) {
	data := make([]byte, size)
	for n > 0 {
		k := min(n, 1000)
		n -= k
		s := q.Begin()
		for range k {
			d, err := s.Add(queuefs.Meta{})
			must(b, err)
			d.Write(data)
		}
		must(b, errOf(s.Commit(ctx)))
	}
}

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
