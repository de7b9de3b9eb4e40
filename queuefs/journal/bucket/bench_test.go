package bucket_test

import (
	"context"
	"crypto/rand"
	"os"
	"sync"
	"testing"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/s3"
)

// realStore is the store of the environment variable CUTIE_TEST_STORE, such as
// s3://bucket/prefix.
func realStore(b *testing.B) objects.Store {
	b.Helper()
	url := os.Getenv("CUTIE_TEST_STORE")
	if url == "" {
		b.Skip("CUTIE_TEST_STORE names no store")
	}
	s, err := s3.Open(url+"/"+rand.Text(), "")
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkCreate is a conditional write of the store alone.
func BenchmarkCreate(b *testing.B) {
	s, data := realStore(b), make([]byte, 1500)
	for b.Loop() {
		if err := s.Create(context.Background(), rand.Text(), data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{1, 64} {
		name := "1"
		if clients > 1 {
			name = "64"
		}
		b.Run(name, func(b *testing.B) {
			l, err := bucket.Open(context.Background(), realStore(b), bucket.Options{})
			if err != nil {
				b.Fatal(err)
			}
			data := []journal.Contents{{Head: make([]byte, 500), Body: make([]byte, 1024)}}
			var wg sync.WaitGroup
			b.ResetTimer()
			for c := range clients {
				wg.Go(func() {
					for range (b.N + c) / clients {
						t, err := l.Append(journal.Adds, data)
						if err == nil {
							_, err = t.Wait()
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(l.Stats().Syncs.Count)/float64(b.N), "puts/op")
			if err := l.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
