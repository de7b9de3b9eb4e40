package publisher_test

import (
	"context"
	"testing"

	"cutie/publisher"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
)

// BenchmarkExcerpt reads 64 KiB from the middle of a closed list of 40 MB.
func BenchmarkExcerpt(b *testing.B) {
	s := newSource(b, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	for range 50 {
		s.submitN(q, 500)
	}
	must(b, s.pub.Publish(context.Background()))
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
