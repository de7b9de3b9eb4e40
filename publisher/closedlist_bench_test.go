package publisher_test

import (
	"context"
	"io"
	"testing"

	"cutie/publisher"
)

// BenchmarkClosedList reads a closed list of 15 MB, whole and in part.
func BenchmarkClosedList(b *testing.B) {
	s := newSource(b, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	for range 30 {
		s.submitN(q, 500)
	}
	must(b, s.pub.Publish(context.Background()))
	url := s.document(s.doc(q, "replica", "changelist-index.xml")).entries[0].Loc
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
