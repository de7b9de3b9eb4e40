package queuefs_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"cutie/queuefs"
)

// tells tests that the events a follower has tell of queue-info.txt as it is:
// the last one that is of no job has its facts, or it is as it was when there
// was none.
func tells(t testing.TB, f *follower, q *queuefs.Queue, first queuefs.Facts) (events int) {
	t.Helper()
	f.check(q)
	last := first
	for _, e := range f.seen[q.ID()] {
		if e.Job != 0 {
			continue
		}
		events++
		if last = e.File; e.Kind != queuefs.Update || e.From != 0 || e.To != 0 || e.Payload != (queuefs.Facts{}) {
			t.Errorf("got %+v", e)
		}
	}
	_, now := q.InfoFile()
	now.Modified, last.Modified = time.Time{}, time.Time{} // copies of homes have other dates
	if now != last {
		t.Errorf("after %d events: queue-info.txt is %+v, told was %+v", events, now, last)
	}
	return events
}

func TestChangedPropertiesAreEvents(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f := newFollower(t)
	f.follow(s)
	_, first := q.InfoFile()
	want := 0
	expect := func(what string, more int) {
		t.Helper()
		want += more
		if got := tells(t, f, q, first); got != want || q.Seq() != queuefs.Seq(len(f.seen["jobs"])) {
			t.Errorf("%s: got %d events of properties, want %d", what, got, want)
		}
	}
	again := func() {
		t.Helper()
		closeHome(t, s)
		s, q = openHome(t, dir, queuefs.Options{})
		f.follow(s)
	}
	name := func(name string) {
		t.Helper()
		if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Name = name })); err != nil {
			t.Fatal(err)
		}
	}
	expect("made", 0)
	submit(t, q, queuefs.Meta{}, "x")
	name("A")
	expect("set", 1)
	name("A")
	expect("set to the same", 0)
	again()
	expect("opened again", 0)
	text := properties(t, dir)
	edit(t, dir, text+"contact: ann@example.org\n")
	reload(t, s)
	expect("edited", 1)
	submit(t, q, queuefs.Meta{}, "y")
	edit(t, dir, text+"closed: perhaps\n")
	reload(t, s)
	expect("broken", 0)
	edit(t, dir, text)
	reload(t, s)
	expect("mended", 1)
	closeHome(t, s)
	edit(t, dir, text+"maxAttempts: 3\n")
	s, q = openHome(t, dir, queuefs.Options{})
	f.follow(s)
	expect("edited while closed", 1)
	if q.Info().MaxAttempts != 3 {
		t.Errorf("got %+v", q.Info())
	}
	again()
	expect("opened again", 0)
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	name("B")
	crashed := copyHome(t, dir)
	expect("set after a checkpoint", 1)
	seq := q.Seq()
	closeHome(t, s)
	s, q = openHome(t, crashed, queuefs.Options{})
	if q.Seq() != seq || q.Info().Name != "B" {
		t.Errorf("after a crash: got %d, want %d, %+v", q.Seq(), seq, q.Info())
	}
	f.follow(s)
	expect("after a crash", 0)
	closeHome(t, s)
	// An index that does not know takes the file as it stands.
	if err := os.RemoveAll(crashed + "/log"); err != nil {
		t.Fatal(err)
	}
	s, q = openHome(t, crashed, queuefs.Options{})
	defer closeHome(t, s)
	if st := q.State(); st.Seq != 4 { // of the last job file
		t.Errorf("without index and journal: got %+v", st)
	}
}

// TestEveryStepOfTellingFails fails each step of changing the properties, also
// with the machine, and looks whether what is told is what is there.
func TestEveryStepOfTellingFails(t *testing.T) {
	for _, way := range []struct{ done, stops bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		for at := 1; ; at++ {
			f := newFaults(0, errInjected)
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Fault: f.step})
			follows := newFollower(t)
			follows.follow(s)
			_, first := q.InfoFile()
			submit(t, q, queuefs.Meta{}, "x")
			if err := s.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			f.n, f.at, f.done, f.stops = 0, at, way.done, way.stops
			_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Name = "Jobs" }))
			fired := f.fired()
			edit(t, dir, properties(t, dir)+"maxAttempts: 4\n")
			for range 3 {
				s.Reload(ctx)
			}
			name := fmt.Sprintf("step %d %s, %+v", at, f.name, way)
			if s.Err() == nil && !way.stops {
				if tells(t, follows, q, first); q.Info().MaxAttempts != 4 || fired != (err != nil) {
					t.Errorf("%s: %v, got %+v", name, err, q.Info())
				}
			}
			crashed := copyHome(t, dir)
			s.Close()
			s, q = openHome(t, crashed, queuefs.Options{})
			follows.follow(s)
			if tells(t, follows, q, first); q.Info().MaxAttempts != 4 {
				t.Errorf("%s: opened again: got %+v", name, q.Info())
			}
			closeHome(t, s)
			if !fired {
				if at < 4 {
					t.Errorf("only %d steps", at)
				}
				break
			}
		}
	}
}
