package publisher_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/job"
)

// discard is a response nobody reads.
type discard struct {
	header http.Header
	status int
	n      int64
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(s int)   { d.status = s }
func (d *discard) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return len(p), nil
}

func (s *source) request(url, coding, tag string) *discard {
	r := httptest.NewRequest(http.MethodGet, strings.TrimPrefix(url, base), nil)
	r.Header.Set("Accept-Encoding", coding)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := &discard{header: http.Header{}, status: 200}
	s.pub.ServeHTTP(w, r)
	return w
}

// BenchmarkCatchUp reads events and appends their entries to both open lists.
func BenchmarkCatchUp(b *testing.B) {
	for _, perCall := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("%d events a call", perCall), func(b *testing.B) {
			s := newSource(b, publisher.Options{}, "jobs")
			q := s.queue("jobs")
			payloads := make([]string, perCall)
			b.StopTimer()
			b.ResetTimer()
			n := 0
			for range (b.N + perCall - 1) / perCall {
				s.submitSmall(q, payloads)
				b.StartTimer()
				must(b, s.pub.Flush())
				b.StopTimer()
				n += perCall
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
		})
	}
}

// BenchmarkMovesWithPackages follows jobs that are submitted, consumed and culled. Lists are
// compressed, and packages made. Processor times are given for a job: three events, with
// eight entries in both sets.
func BenchmarkMovesWithPackages(b *testing.B) {
	for _, kind := range []struct {
		mediaType  string
		size, each int
	}{{"application/octet-stream", 1 << 10, 500}, {"application/json", 1 << 10, 500}, {"application/octet-stream", 64 << 10, 64}} {
		mediaType, each := kind.mediaType, kind.each
		b.Run(fmt.Sprintf("%s %d KiB", mediaType, kind.size>>10), func(b *testing.B) {
			s := newSource(b, publisher.Options{MaxEntries: 10_000}, "jobs")
			q := s.queue("jobs")
			words := rand.New(rand.NewPCG(1, 2))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var allocs uint64
			timed := func(do func()) time.Duration {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := threadTime(b)
				do()
				d := threadTime(b) - start
				runtime.ReadMemStats(&after)
				allocs += after.TotalAlloc - before.TotalAlloc
				return d
			}
			var follow, pack time.Duration
			rounds := (b.N + each - 1) / each
			for range rounds {
				sub := q.Begin()
				for range each {
					d, err := sub.Add(job.Meta{MediaType: mediaType})
					must(b, err)
					var text []byte
					for len(text) < kind.size {
						text = fmt.Appendf(text, "word%d ", words.IntN(5000))
					}
					_, err = d.Write(text[:kind.size])
					must(b, err)
				}
				_, err := sub.Commit(context.Background())
				must(b, err)
				s.consume(q, each)
				for _, err := range s.svc.Cull(context.Background(), queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 1000}}) {
					must(b, err)
				}
				follow += timed(func() { must(b, s.pub.Flush()) })
			}
			pack = timed(s.settle)
			octets := int64(0)
			for _, st := range s.pub.State() {
				octets += st.Octets
			}
			n := float64(rounds * each)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(follow.Nanoseconds())/n, "follow-ns/job")
			b.ReportMetric(float64(pack.Nanoseconds())/n, "pack-ns/job")
			b.ReportMetric(float64(allocs)/n, "B/job")
			b.ReportMetric(float64(octets)/n, "octets/job")
		})
	}
}

// threadTime returns the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (s *source) submitSmall(q *queuefs.Queue, payloads []string) {
	for len(payloads) > 0 {
		n := min(len(payloads), 200)
		s.submit(q, payloads[:n]...)
		payloads = payloads[n:]
	}
}

// BenchmarkResourceListAfter100Changes asks for the pages that 100 submissions
// touched, compressed.
func BenchmarkResourceListAfter100Changes(b *testing.B) {
	for _, pending := range []int{1_000, 10_000, 100_000} {
		s := newSource(b, publisher.Options{}, "jobs")
		q := s.queue("jobs")
		s.submitN(q, pending)
		b.Run(fmt.Sprintf("%d pending", pending), func(b *testing.B) {
			urls := []string{s.doc(q, "pending", "resourcelist.xml")}
			tags := map[string]string{}
			refresh := func() (n int64) {
				w := s.request(urls[0], "gzip", tags[urls[0]])
				tags[urls[0]], n = w.header.Get("ETag"), w.n
				for _, url := range urls[1:] {
					w := s.request(url, "gzip", tags[url])
					tags[url] = w.header.Get("ETag")
					n += w.n
				}
				return n
			}
			if pending > 49_000 {
				for _, e := range parse(b, s.body(urls[0])).entries {
					urls = append(urls, e.Loc)
				}
			}
			refresh()
			b.StopTimer()
			b.ResetTimer()
			for range b.N {
				s.submitN(q, 100)
				s.consume(q, 100)
				b.StartTimer()
				refresh()
				b.StopTimer()
			}
		})
	}
}

// BenchmarkResourceListPage reads a page of 49,152 jobs.
func BenchmarkResourceListPage(b *testing.B) {
	s := newSource(b, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 49_200)
	url := s.doc(q, "pending", "resourcelist-000001.xml")
	for _, coding := range []string{"identity", "gzip"} {
		b.Run("kept "+coding, func(b *testing.B) {
			s.request(url, coding, "")
			for b.Loop() {
				b.SetBytes(s.request(url, coding, "").n)
			}
		})
		b.Run("made "+coding, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				must(b, s.pub.Close())
				s.openPublisher()
				b.StartTimer()
				b.SetBytes(s.request(url, coding, "").n)
			}
		})
	}
}

func BenchmarkOpenChangeList(b *testing.B) {
	s := newSource(b, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 20_000)
	url := s.doc(q, "pending", "changelist.xml")
	for _, coding := range []string{"identity", "gzip"} {
		b.Run(coding, func(b *testing.B) {
			s.request(url, coding, "")
			for b.Loop() {
				b.SetBytes(s.request(url, coding, "").n)
			}
		})
		b.Run(coding+" after one event", func(b *testing.B) {
			b.StopTimer()
			for range b.N {
				s.submit(q, "x")
				b.StartTimer()
				b.SetBytes(s.request(url, coding, "").n)
				b.StopTimer()
			}
		})
	}
}

func BenchmarkNotModified(b *testing.B) {
	s := newSource(b, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 60_000)
	for _, name := range []string{"resourcelist.xml", "resourcelist-000001.xml", "changelist.xml", "changelist-index.xml", "capabilitylist.xml"} {
		b.Run(name, func(b *testing.B) {
			url := s.doc(q, "pending", name)
			tag := s.request(url, "gzip", "").header.Get("ETag")
			for b.Loop() {
				if w := s.request(url, "gzip", tag); w.status != 304 {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// BenchmarkChangeDump makes and checks packages of payloads of 1 KiB.
func BenchmarkChangeDump(b *testing.B) {
	const jobs = 10_000
	s := newSource(b, publisher.Options{MaxEntries: jobs}, "jobs")
	q := s.queue("jobs")
	payloads := make([]string, 200)
	for i := range payloads {
		payloads[i] = strings.Repeat(fmt.Sprintf("%04d…", i), 1024/6)
	}
	b.StopTimer()
	for range b.N {
		for range jobs / len(payloads) {
			s.submit(q, payloads...)
		}
		s.submit(q, "one more closes the list")
		must(b, s.pub.Flush())
		list := s.doc(q, "pending", "changedump.xml")
		have := len(parse(b, s.body(list)).entries)
		b.StartTimer()
		for len(parse(b, s.body(list)).entries) == have {
			must(b, s.pub.Tick(context.Background()))
		}
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/job")
	}
}

// BenchmarkPackage makes one package of 50,000 payloads of 1 KiB, stored and
// deflated, as a Resource Dump; zip -0 and zip -1 do the same from files.
func BenchmarkPackage(b *testing.B) {
	const jobs, size = 50_000, 1024
	for _, mediaType := range []string{"application/octet-stream", "text/plain"} {
		b.Run(mediaType, func(b *testing.B) {
			s := newSource(b, publisher.Options{DumpPeriod: time.Nanosecond}, "jobs")
			q := s.queue("jobs")
			for n := range jobs / 500 {
				sub := q.Begin()
				for i := range 500 {
					d, err := sub.Add(job.Meta{MediaType: mediaType})
					must(b, err)
					_, err = io.WriteString(d, strings.Repeat(fmt.Sprintf("%08d", n*500+i), size/8))
					must(b, err)
				}
				_, err := sub.Commit(context.Background())
				must(b, err)
			}
			list := s.doc(q, "pending", "resourcedump.xml")
			for b.Loop() {
				tag := s.get(list).Header.Get("ETag")
				b.StopTimer()
				s.submit(q, "touches the last page")
				s.consume(q, 1) // and the first
				b.StartTimer()
				for s.get(list).Header.Get("ETag") == tag {
					must(b, s.pub.Tick(context.Background()))
				}
			}
			b.SetBytes(jobs * size)
		})
	}
}

// BenchmarkTickOfIdleQueues looks at a thousand queues that did not change.
func BenchmarkTickOfIdleQueues(b *testing.B) {
	s := newSource(b, publisher.Options{})
	for i := range 1000 {
		s.queue(fmt.Sprintf("q%d", i))
	}
	for b.Loop() {
		must(b, s.pub.Tick(context.Background()))
	}
}

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
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		entries, _, _, err := s.pub.Excerpt(s.queue("jobs"), names.Replica, job.Seq(1000+n*37%20_000), 64<<10)
		if err != nil || len(entries) < 60_000 {
			b.Fatalf("%d octets, %v", len(entries), err)
		}
	}
}

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
