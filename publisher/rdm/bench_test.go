package rdm_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cutie/publisher/rdm"
	"cutie/queuefs"
)

// A sink takes an answer and notes when it began.
type sink struct {
	header http.Header
	began  time.Time
	n      int64
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     { s.began = time.Now() }
func (s *sink) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return len(p), nil
}

const benchJobs = 20_000

func (s *site) many(n int) {
	s.t.Helper()
	for done := 0; done < n; {
		sub := s.q.Begin()
		for range min(400, n-done) {
			done++
			d, err := sub.Add(queuefs.Meta{Filename: fmt.Sprintf("file %d", done), Submitter: "bench/1", Sidecar: "profile=uc3_content"})
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(d, "payload %d", done)
		}
		if _, err := sub.Commit(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.svc.Checkpoint(ctx); err != nil {
		s.t.Fatal(err)
	}
}

func BenchmarkRetrieve(b *testing.B) {
	s := newSite(b, rdm.Options{})
	s.many(benchJobs)
	for _, query := range []string{"", "&view-attributes=Identifier,Status,Size,RD-Last-Modified", "&view-order=-Size&view-hits=10", "&scope=since+Tue,+20+Apr+2010+23:00:00+GMT"} {
		b.Run("all"+query, func(b *testing.B) {
			var first time.Duration
			for b.Loop() {
				w := &sink{header: http.Header{}}
				start := time.Now()
				s.h.ServeHTTP(w, httptest.NewRequest("GET", rdm.Path+"?type=rd-request"+query, nil))
				first += w.began.Sub(start)
			}
			b.ReportMetric(float64(benchJobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(first.Microseconds())/float64(b.N), "µs-to-first")
		})
	}
}
