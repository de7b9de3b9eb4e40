package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

func tellPhase(t testing.TB, q *queuefs.Queue, subject, phase string) {
	t.Helper()
	if err := q.TellPhase(ctx, subject, phase); err != nil {
		t.Fatal(err)
	}
}

// phases returns the phases among events, as "subject phase".
func phases(t testing.TB, events []queuefs.Event) (all []string) {
	t.Helper()
	for _, e := range events {
		if e.Kind != queuefs.Phase {
			if e.Subject != "" || e.Phase != "" {
				t.Errorf("got %+v", e)
			}
			continue
		}
		if want := (queuefs.Event{Seq: e.Seq, Time: e.Time, Kind: e.Kind, Subject: e.Subject, Phase: e.Phase}); e != want {
			t.Errorf("got %+v, want nothing of a job or a file", e)
		}
		all = append(all, strings.TrimSpace(e.Subject+" "+e.Phase))
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
	want := []string{"u1 PENDING", long + " ABORTED", "u1"}
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
	want = append(want, "u2 PENDING")
	if _, err := s.SetQueue(ctx, "jobs", set(func(*queuefs.QueueInfo) {})); err != nil { // as it was: no event
		t.Fatal(err)
	}
	look := func(when string) {
		t.Helper()
		f.check(q)
		if got := phases(t, f.seen["jobs"]); !slices.Equal(got, want) {
			t.Errorf("%s: got %q want %q", when, got, want)
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
	want, seq := append(want, "u2"), q.Seq()
	closeHome(t, s)
	r, err := queuefs.Check(crashed, queuefs.CheckOptions{Rebuild: true, Segment: segmentSize})
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
	want = want[:4]
	look("after two crashes")
}

func TestPhasesOfBadNamesAreNone(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for _, bad := range [][2]string{{"", "PENDING"}, {strings.Repeat("u", 129), ""}, {"u 1", ""}, {"u\n", ""}, {"ü", ""}, {"u\x7f", ""},
		{"u1", "pending"}, {"u1", "PENDING ABORTED"}, {"u1", " "}, {"u1", strings.Repeat("P", 33)}} {
		if err := q.TellPhase(ctx, bad[0], bad[1]); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := q.TellPhase(gone, "u1", "PENDING"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := q.Seq(); got != 0 {
		t.Errorf("got %d events", got)
	}
	if err := s.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	if err := q.TellPhase(ctx, "u1", "PENDING"); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("of a queue that was removed: got %v", err)
	}
}

func TestPhasesWakeWhoWaitsForEvents(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	done := make(chan error, 1)
	go func() { done <- q.Wait(ctx, 0) }()
	tellPhase(t, q, "u1", "PENDING")
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nobody woke")
	}
}

// TestEveryStepOfAPhaseFails fails each step of telling phases, also with the
// machine: what was acknowledged is told once, what was not at most once.
func TestEveryStepOfAPhaseFails(t *testing.T) {
	for _, way := range []struct{ done, stops bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		for at := 1; ; at++ {
			f := newFaults(0, errInjected)
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Fault: f.step})
			f.n, f.at, f.done, f.stops = 0, at, way.done, way.stops
			told := map[string]bool{}
			tell := func(subject string) { told[subject] = q.TellPhase(ctx, subject, "PENDING") == nil }
			tell("u1")
			s.Checkpoint(ctx)
			tell("u2")
			s.Checkpoint(ctx)
			tell("u3")
			fired, name := f.fired(), fmt.Sprintf("step %d %s, %+v", at, f.name, way)
			crashed := copyHome(t, dir)
			s.Close()
			s, q = openHome(t, crashed, queuefs.Options{})
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			tellPhase(t, q, "after", "PENDING")
			events, err := q.Events(0, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			count := map[string]int{}
			for i, e := range events {
				if count[e.Subject]++; e.Seq != queuefs.Seq(i+1) {
					t.Errorf("%s: event %d is %+v", name, i+1, e)
				}
			}
			for subject, acknowledged := range told {
				if n := count[subject]; n > 1 || acknowledged && n == 0 {
					t.Errorf("%s: %s was told %d times, acknowledged: %v", name, subject, n, acknowledged)
				}
			}
			closeHome(t, s)
			os.RemoveAll(dir)
			os.RemoveAll(crashed)
			if !fired {
				if at < 10 {
					t.Errorf("only %d steps", at)
				}
				break
			}
		}
	}
}
