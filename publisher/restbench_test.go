package publisher_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"cutie/publisher"
)

// BenchmarkTickAtRest is a Tick of a home with many queues at rest, a job each. B/queue
// is the memory of a queue in the publisher.
func BenchmarkTickAtRest(b *testing.B) {
	const n = 5000
	s := newSource(b, publisher.Options{})
	for i := range n {
		s.submit(s.queue(fmt.Sprintf("q%05d", i)), "a job")
	}
	s.pub.KeepOpen(0)
	must(b, s.pub.Flush())
	must(b, s.pub.Synced())
	for range n {
		must(b, s.pub.Tick(context.Background()))
	}
	used := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	with := used()
	for b.Loop() {
		must(b, s.pub.Tick(context.Background()))
	}
	b.StopTimer()
	s.svc.Follow(nil)
	must(b, s.pub.Close())
	s.pub = nil
	b.ReportMetric((with-used())/n, "B/queue")
	s.openPublisher()
}
