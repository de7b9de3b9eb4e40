package bucket_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"

	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/objects/s3"
)

// realStore starts a server, and returns a function for a new place in it.
func realStore(t testing.TB) func() objects.Store {
	t.Helper()
	endpoint := objectstest.Real(t)
	t.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	return func() objects.Store {
		s, err := s3.Open("s3://bucket/"+rand.Text(), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// BenchmarkCreate is a conditional write of the store alone.
func BenchmarkCreate(b *testing.B) {
	s, data := realStore(b)(), make([]byte, 1500)
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
			l, err := bucket.Open(context.Background(), realStore(b)(), bucket.Options{})
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
