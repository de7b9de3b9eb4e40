package publisher_test

import (
	"context"
	"io"
	"testing"

	"cutie/publisher"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
)

// closedList is a Source with one closed list of jobs.
func closedList(b *testing.B, jobs int) *source {
	s := newSource(b, publisher.Options{}, "jobs")
	for range jobs / 500 {
		s.submitN(s.queue("jobs"), 500)
	}
	must(b, s.pub.Publish(context.Background()))
	return s
}

// BenchmarkClosedList reads a closed list of 15 MB, whole and in part.
func BenchmarkClosedList(b *testing.B) {
	s := closedList(b, 15_000)
	url := s.document(s.doc(s.queue("jobs"), "replica", "changelist-index.xml")).entries[0].Loc
	for _, c := range []struct{ name, coding, part string }{
		{"identity", "identity", "bytes=0-"},
		{"gzip", "gzip", "bytes=0-"},
		{"part", "identity", "bytes=7000000-7000999"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp := s.get(url, "Accept-Encoding", c.coding, "Range", c.part)
				n, err := io.Copy(io.Discard, resp.Body)
				must(b, err)
				b.SetBytes(n)
			}
		})
	}
}

// BenchmarkExcerpt reads 64 KiB from the middle of a closed list of 40 MB.
func BenchmarkExcerpt(b *testing.B) {
	s := closedList(b, 25_000)
	v, err := s.pub.View("jobs", names.Replica)
	must(b, err)
	at := v.Position().At
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		x, err := v.Excerpt(entries.Position{Seq: queuefs.Seq(1000 + n*37%20_000), At: at}, 64<<10)
		if err != nil || len(x.Entries) < 60_000 {
			b.Fatalf("%d octets, %v", len(x.Entries), err)
		}
	}
}
