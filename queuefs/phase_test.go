package queuefs_test

import (
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// tellPhase makes an event as former versions did.
func tellPhase(t testing.TB, q *queuefs.Queue, subject, phase string) {
	t.Helper()
	must(t, q.TellPhase(strings.TrimSpace(subject+" "+phase)))
}

// phases returns the numbers of such events.
func phases(t testing.TB, events []queuefs.Event) (all []queuefs.Seq) {
	t.Helper()
	for _, e := range events {
		if e.Kind != queuefs.Phase {
			continue
		}
		if want := (queuefs.Event{Seq: e.Seq, Time: e.Time, Kind: e.Kind}); e != want {
			t.Errorf("got %+v, want nothing of a job or a file", e)
		}
		all = append(all, e.Seq)
	}
	return all
}

func TestPhasesAreEventsOfNoJob(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f := newFollower(t)
	f.follow(s)
	submit(t, q, queuefs.Meta{}, "x")
	long := strings.Repeat("~", 128)
	before := q.State()
	tellPhase(t, q, "u1", "PENDING")
	tellPhase(t, q, long, "ABORTED")
	tellPhase(t, q, "u1", "")
	want := []queuefs.Seq{2, 3, 4}
	after := q.State()
	if !after.LastEvent.After(before.LastEvent) || after.Seq != before.Seq+3 {
		t.Errorf("got %+v after %+v", after, before)
	}
	after.Seq, after.LastEvent = before.Seq, before.LastEvent
	if after != before {
		t.Errorf("got %+v, want nothing but number and time of the last event to be another: %+v", after, before)
	}
	if _, now := q.InfoFile(); now.SHA256 == ([32]byte{}) || q.Pages() != 1 {
		t.Errorf("got %+v, %d pages", now, q.Pages())
	}
	submit(t, q, queuefs.Meta{}, strings.Repeat("y", 70<<10)) // many are read at a time, this one is not
	tellPhase(t, q, "u2", "PENDING")
	want = append(want, 6)
	if _, err := s.SetQueue(ctx, "jobs", set(func(*queuefs.QueueInfo) {})); err != nil { // as it was: no event
		t.Fatal(err)
	}
	look := func(when string) {
		t.Helper()
		f.check(q)
		if got := phases(t, f.seen["jobs"]); !slices.Equal(got, want) {
			t.Errorf("%s: got %v want %v", when, got, want)
		}
		all, err := q.Events(0, 0)
		if err == nil && !slices.Equal(all, f.seen["jobs"]) {
			t.Errorf("%s: read at once the %d events are others", when, len(all))
		}
		if got := q.State(); got.Seq != 6 || got.Pending != 2 {
			t.Errorf("%s: got %+v", when, got)
		}
	}
	look("told")
	crashed := copyHome(t, dir)
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	f.follow(s)
	look("opened again")
	closeHome(t, s)

	s, q = openHome(t, crashed, queuefs.Options{Report: func(p queuefs.Problem) { t.Error(p) }})
	f = newFollower(t)
	f.follow(s)
	look("after a crash")
	twice := copyHome(t, crashed) // the journal is replayed once more
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	tellPhase(t, q, "u2", "")
	seq := q.Seq()
	closeHome(t, s)
	r, err := check.Home(crashed, check.Options{Rebuild: true, Segment: segmentSize})
	if err != nil || len(r.Problems) > 0 || r.Jobs != 2 {
		t.Errorf("rebuilt: got %+v, %v", r, err)
	}
	s, q = openHome(t, crashed, queuefs.Options{})
	if got := q.Seq(); got != seq {
		t.Errorf("rebuilt: got event %d, want %d", got, seq)
	}
	closeHome(t, s)
	s, q = openHome(t, twice, queuefs.Options{})
	defer closeHome(t, s)
	f = newFollower(t)
	f.follow(s)
	look("after two crashes")
}
