package segment_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
)

// BenchmarkLog commits records, each on stable storage before its caller goes
// on. The directory is that of the system for temporary files.
func BenchmarkLog(b *testing.B) {
	for i := range 6 {
		clients, size := []int{1, 8, 64}[i%3], []int{1 << 10, 64 << 10}[i/3]
		b.Run(fmt.Sprintf("size=%d/clients=%d", size, clients), func(b *testing.B) {
			d, err := durable.OpenDir(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			l, err := segment.Open(d, segment.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			payload := make([]byte, size)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			b.ResetTimer()
			for range clients {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := commit(l, payload); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func commit(l *segment.Log, p []byte) error {
	for {
		t, err := l.Append(journal.Adds, []journal.Contents{{Body: p}})
		if err == journal.ErrUnready {
			if err = l.Reserve(journal.Adds, 1, l.Stats().MaxAppend); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		_, err = t.Wait()
		return err
	}
}
