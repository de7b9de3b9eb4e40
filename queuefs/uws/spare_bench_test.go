package uws_test

import (
	"fmt"
	"testing"

	"cutie/queuefs"
)

// BenchmarkCullingAsksOfEach is one call of Cull of a queue whose processed
// jobs are all spared.
func BenchmarkCullingAsksOfEach(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, "uwsDestruction: 2\n")
			w.svc.Spare(w.h.Spares)
			if _, err := w.svc.SetQueue(b.Context(), "q", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
				b.Fatal(err)
			}
			for range n {
				w.create("a=1&PHASE=RUN")
				w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
			}
			if err := w.svc.Checkpoint(b.Context()); err != nil {
				b.Fatal(err)
			}
			w.tick()
			b.ResetTimer()
			for b.Loop() {
				for c, err := range w.svc.Cull(b.Context(), queuefs.CullOptions{}) {
					b.Fatal(c, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/job")
		})
	}
}
