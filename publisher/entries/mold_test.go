package entries_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// anEvent returns an event of any kind, between any states, with facts of any kind.
func anEvent(random *rand.Rand) queuefs.Event {
	at := func() time.Time {
		if random.IntN(20) == 0 {
			return time.Time{}
		}
		return time.UnixMicro(random.Int64N(1 << uint(40+random.IntN(16)))).UTC()
	}
	facts := func() queuefs.Facts {
		types := []string{"", "text/plain", "application/json", `text/x; a="<&>"`, job.FileType}
		f := queuefs.Facts{Length: random.Int64N(1 << uint(1+random.IntN(50))), Modified: at(), Type: types[random.IntN(len(types))]}
		for i := range f.SHA256 {
			f.SHA256[i] = byte(random.Uint32())
		}
		if random.IntN(2) == 0 {
			f.MD5[3] = byte(random.Uint32())
		}
		return f
	}
	status := func() queuefs.Status { return queuefs.Status(random.IntN(int(queuefs.Deleted) + 1)) }
	ev := queuefs.Event{
		Seq: queuefs.Seq(random.Uint64N(1 << uint(1+random.IntN(60)))), Time: at(), Kind: queuefs.Kind(1 + random.IntN(10)),
		Job: queuefs.JobID(1 + random.IntN(1e12-1)), From: status(), To: status(), Payload: facts(), File: facts(),
	}
	if random.IntN(10) == 0 {
		ev.Results = &job.ResultChange{Came: []job.Result{{Name: "a", Size: 3, MediaType: "text/plain"}}, Went: []string{"b"}}
	}
	return ev
}

// TestEntriesAreTheSameAtFirstAndLater compares entries of a Renderer that has printed many
// with those of new ones, in each version.
func TestEntriesAreTheSameAtFirstAndLater(t *testing.T) {
	t.Parallel()
	sites := []names.Site{"http://source.test/cutie", "http://source.test/j590417263814/2891-07-23T19:43:57.318642Z/8205716394051"}
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09, sitemap.Jan2013} {
		for _, site := range sites {
			random := rand.New(rand.NewPCG(1, uint64(d)))
			r := entries.Renderer{Refs: site.Queue("jobs"), Dialect: d, Mirrors: []string{"http://mirror.test"}, Via: "http://origin.test"}
			var files, wantFiles []string
			tell := func(to *[]string) func(names.File, *queuefs.Facts, string) {
				return func(of names.File, f *queuefs.Facts, typ string) { *to = append(*to, fmt.Sprint(of, *f, typ)) }
			}
			r.File = tell(&files)
			for range 1000 {
				ev := anEvent(random)
				for s := range names.Set(names.Sets) {
					once := entries.Renderer{Refs: r.Refs, Dialect: d, Mirrors: r.Mirrors, Via: r.Via, File: tell(&wantFiles)}
					got, n := r.Changed(nil, s, &ev)
					want, m := once.Changed(nil, s, &ev)
					if string(got) != string(want) || n != m || fmt.Sprint(files) != fmt.Sprint(wantFiles) {
						t.Fatalf("%v, %v, %+v: got %d entries\n%s\nwant %d\n%s\nfiles %q, want %q", d, s, ev, n, got, m, want, files, wantFiles)
					}
					files, wantFiles = files[:0], wantFiles[:0]
				}
			}
		}
	}
}

// moves are the events of a job that comes, is consumed and culled.
func moves() []queuefs.Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	payload := queuefs.Facts{Length: 1024, SHA256: [32]byte{1}, Type: "application/octet-stream", Modified: at}
	file := queuefs.Facts{Length: 200, SHA256: [32]byte{3}, Type: job.FileType, Modified: at}
	return []queuefs.Event{
		{Seq: 1, Time: at, Kind: job.Submit, Job: 7, To: job.Pending, Payload: payload, File: file},
		{Seq: 2, Time: at, Kind: job.Consume, Job: 7, From: job.Pending, To: job.Consumed, File: file},
		{Seq: 3, Time: at, Kind: job.Cull, Job: 7, From: job.Consumed},
	}
}

func BenchmarkChanged(b *testing.B) {
	r := entries.Renderer{Refs: names.Site("http://source.test/cutie").Queue("jobs")}
	events := moves()
	var buf []byte
	lines := 0
	b.ReportAllocs()
	for b.Loop() {
		buf, lines = buf[:0], 0
		for s := range names.Set(names.Sets) {
			for i := range events {
				var n int
				buf, n = r.Changed(buf, s, &events[i])
				lines += n
			}
		}
	}
	b.ReportMetric(float64(len(buf)), "octets/op")
	b.ReportMetric(float64(lines), "entries/op")
}

// TestEntriesOfMovesTakeNoMemory prints entries after the first ones of their shapes.
func TestEntriesOfMovesTakeNoMemory(t *testing.T) {
	r := entries.Renderer{Refs: names.Site("http://source.test/cutie").Queue("jobs")}
	events, buf := moves(), make([]byte, 0, 1<<20)
	if n := testing.AllocsPerRun(10, func() {
		for s := range names.Set(names.Sets) {
			for i := range events {
				buf, _ = r.Changed(buf, s, &events[i])
			}
		}
		buf = buf[:0]
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
