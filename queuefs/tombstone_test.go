package queuefs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cutie/queuefs"
)

// process submits n jobs and consumes them.
func process(t testing.TB, q *queuefs.Queue, n int) {
	t.Helper()
	sub := q.Begin()
	for range n {
		if _, err := sub.Add(queuefs.Meta{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sub.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for n > 0 {
		jobs, err := q.NextN(ctx, "w", min(n, queuefs.MaxTake))
		if err != nil {
			t.Fatal(err)
		}
		n -= len(jobs)
	}
}

// stones reads all tombstones, a few at a time.
func stones(t testing.TB, q *queuefs.Queue, since time.Time, limit int) (all []queuefs.Tombstone) {
	t.Helper()
	for {
		some, err := q.Tombstones(since, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return all
		}
		if len(some) > limit {
			t.Fatalf("got %d, more than %d", len(some), limit)
		}
		all = append(all, some...)
		since = some[len(some)-1].Culled
	}
}

// TestTombstonesOutliveEveryStop culls in several rounds, and looks at the
// tombstones after stops between the rounds.
func TestTombstonesOutliveEveryStop(t *testing.T) {
	clock := newClock()
	dir := fastDir(t)
	o := queuefs.Options{Now: clock.now}
	s, q := openHome(t, dir, o)
	var want []queuefs.Tombstone
	check := func(when string, q *queuefs.Queue) {
		t.Helper()
		for _, limit := range []int{1, 3, 1000} {
			if got := stones(t, q, time.Time{}, limit); !slices.Equal(got, want) {
				t.Fatalf("%s: got %v\nwant %v", when, got, want)
			}
		}
		if n := len(want); n > 2 {
			if got := stones(t, q, want[n-3].Culled, 5); !slices.Equal(got, want[n-2:]) {
				t.Fatalf("%s: since the last but two: got %v\nwant %v", when, got, want[n-2:])
			}
		}
	}
	round := func() {
		t.Helper()
		process(t, q, 3)
		culled := cullQueue(t, s, "jobs")
		seq := q.Seq() - queuefs.Seq(len(culled))
		for i, id := range culled {
			events, err := q.Events(seq+queuefs.Seq(i), 1)
			if err != nil || len(events) != 1 || events[0].Job != id {
				t.Fatalf("got %v, %v", events, err)
			}
			want = append(want, queuefs.Tombstone{Job: id, Culled: events[0].Time, Seq: events[0].Seq})
		}
	}
	for n := range 4 {
		round()
		check("in memory", q)
		if n%2 == 1 {
			if err := s.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			check("checkpoint", q)
			round()
		}
		// The crash comes between the file and the checkpoint that goes with it.
		crashed := copyHome(t, dir)
		file := filepath.Join(crashed, "log/index/queues/jobs/culled")
		for _, torn := range []string{"", "half a stone", string(make([]byte, 64))} {
			if torn != "" {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
				if err != nil {
					t.Fatal(err)
				}
				f.WriteString(torn)
				f.Close()
			}
			c, cq := openHome(t, copyHome(t, crashed), o)
			check("crash", cq)
			closeHome(t, c)
		}
		closeHome(t, s)
		s, q = openHome(t, dir, o)
		check("reopened", q)
		clock.forward(time.Hour)
	}
	defer func() { closeHome(t, s) }()

	clock.forward(90*24*time.Hour - 3*time.Hour - 30*time.Minute)
	want = slices.DeleteFunc(want, func(s queuefs.Tombstone) bool { return !s.Culled.After(clock.now().Add(-90 * 24 * time.Hour)) })
	if len(want) == 0 || len(want) >= 18 {
		t.Fatalf("%d are young enough", len(want))
	}
	check("after 90 days", q)
	clock.forward(24 * time.Hour)
	want = nil
	check("after 91 days", q)
}

// TestOldTombstonesGo has so many that the file is worth writing anew.
func TestOldTombstonesGo(t *testing.T) {
	clock := newClock()
	dir := fastDir(t)
	o := queuefs.Options{Now: clock.now, Segment: 32 << 20}
	s, q := openHome(t, dir, o)
	for _, hours := range []int64{-1, 876_001} {
		if err := s.SetService(ctx, func(i *queuefs.ServiceInfo) error { i.TombstoneAge = hours; return nil }); err == nil {
			t.Errorf("%d hours: got no error", hours)
		}
	}
	must(t, s.SetService(ctx, func(i *queuefs.ServiceInfo) error { i.TombstoneAge = 3; return nil }))
	const n = 5000
	size := func(want int64) {
		t.Helper()
		st, err := os.Stat(filepath.Join(dir, "log/index/queues/jobs/culled"))
		if err != nil || st.Size() != 32*want {
			t.Errorf("the file: got %v, %v want %d octets", st, err, 32*want)
		}
	}
	for round := range 2 {
		process(t, q, n+1)
		if got := cullQueue(t, s, "jobs"); len(got) != n+1 {
			t.Fatalf("culled %d", len(got))
		}
		for _, settled := range []bool{false, true} {
			for limit, want := range map[int]int{-1: 1000, 0: 1000, 7: 7, 10_000: min(10_000, (round+1)*(n+1)), 1 << 40: min(10_000, (round+1)*(n+1))} {
				if got, err := q.Tombstones(time.Time{}, limit); err != nil || len(got) != want {
					t.Errorf("limit %d, settled %v: got %d, %v want %d", limit, settled, len(got), err, want)
				}
			}
			if err := s.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
		}
		size(int64(round+1) * (n + 1))
		clock.forward(2 * time.Hour)
	}
	process(t, q, 1)
	cullQueue(t, s, "jobs")
	closeHome(t, s)
	size(n + 2)
	s, q = openHome(t, dir, o)
	defer closeHome(t, s)
	got := stones(t, q, time.Time{}, 10_000)
	if len(got) != n+2 || got[0].Job != n+2 || got[n+1].Job != 2*n+3 || got[n+1].Seq != 3*(2*n+3)+1 { // one is of the properties
		t.Errorf("got %d, first %v, last %v", len(got), got[0], got[len(got)-1])
	}
}
