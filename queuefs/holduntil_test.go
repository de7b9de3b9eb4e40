package queuefs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// available returns the jobs to be taken now, in their order.
func available(t testing.TB, q *queuefs.Queue) (ids []queuefs.JobID) {
	t.Helper()
	jobs, err := q.List(queuefs.ListOptions{Status: queuefs.Pending, Limit: 1000})
	must(t, err)
	for _, j := range jobs {
		if j.Held.IsZero() {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func TestHoldsEndByThemselves(t *testing.T) {
	var d dial
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: d.now})
	at := func(m int) time.Time { return d.now().Add(time.Duration(m) * time.Minute) }
	fillQueue(t, q, 3, 1)
	j, err := q.HoldUntil(ctx, 2, "why", at(10))
	if err != nil || j.HeldFor != "why" || !j.HeldUntil.Equal(at(10)) || j.Held.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	if j := submit(t, q, queuefs.Meta{NotBefore: at(5)}, "x"); !j.HeldUntil.Equal(at(5)) || j.Held.IsZero() || j.HeldFor != "" {
		t.Errorf("got %+v", j)
	}
	if j := submit(t, q, queuefs.Meta{NotBefore: at(-1)}, "x"); !j.HeldUntil.IsZero() || !j.Held.IsZero() {
		t.Errorf("not before a time in the past: got %+v", j)
	}
	if got := counted(t, q); got.Held != 2 {
		t.Errorf("got %d jobs on hold", got.Held)
	}
	seq := q.Seq()
	for _, past := range []time.Time{at(0), at(-1), time.Unix(1<<40, 0)} {
		if _, err := q.HoldUntil(ctx, 1, "", past); !errors.Is(err, queuefs.ErrBadName) || q.Seq() != seq {
			t.Errorf("until %v: got %v", past, err)
		}
	}
	for _, step := range []struct {
		turn      time.Duration
		available []queuefs.JobID
		events    int
	}{
		{0, []queuefs.JobID{1, 3, 5}, 0},
		{5*time.Minute - time.Microsecond, []queuefs.JobID{1, 3, 5}, 0},
		{time.Microsecond, []queuefs.JobID{1, 3, 4, 5}, 1},
		{5 * time.Minute, []queuefs.JobID{1, 2, 3, 4, 5}, 1}, // in its old place
		{time.Hour, []queuefs.JobID{1, 2, 3, 4, 5}, 0},
	} {
		d.turn(step.turn)
		seq := q.Seq()
		must(t, s.Expire(ctx))
		if got := available(t, q); !slices.Equal(got, step.available) || int(q.Seq()-seq) != step.events {
			t.Errorf("after %v more: got %v by %d events, want %v", step.turn, got, q.Seq()-seq, step.available)
		}
		events, err := q.Events(seq, 100)
		must(t, err)
		for _, e := range events {
			if e.Kind != queuefs.Release {
				t.Errorf("got %v", e.Kind)
			}
		}
	}
	everywhere(t, s, dir)
}

// TestTheEndOfAHoldChanges gives a job on hold another end, none, and one again.
func TestTheEndOfAHoldChanges(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	defer closeHome(t, s)
	fillQueue(t, q, 1, 1)
	hold := func(until time.Time) {
		t.Helper()
		_, err := q.HoldUntil(ctx, 1, "", until)
		must(t, err)
	}
	held := func(want bool) {
		t.Helper()
		must(t, s.Expire(ctx))
		if got := counted(t, q).Held == 1; got != want {
			t.Errorf("on hold: %v", got)
		}
	}
	start := d.now()
	hold(start.Add(time.Minute))
	seq := q.Seq()
	hold(start.Add(time.Minute))
	if q.Seq() != seq {
		t.Error("the same end was an event")
	}
	hold(start.Add(2 * time.Minute))
	d.turn(time.Minute)
	held(true)
	_, err := q.Hold(ctx, 1, "for good")
	must(t, err)
	d.turn(time.Hour)
	held(true)
	hold(d.now().Add(time.Second))
	if j, err := q.Job(1); err != nil || j.HeldFor != "for good" || !j.Held.Before(start.Add(time.Second)) {
		t.Errorf("got %+v, %v", j, err)
	}
	d.turn(time.Second)
	held(false)
	hold(d.now().Add(time.Second))
	_, err = q.Release(ctx, 1)
	must(t, err)
	hold(d.now().Add(time.Second))
	_, err = q.Delete(ctx, 1)
	must(t, err)
	d.turn(time.Second)
	seq = q.Seq()
	must(t, s.Expire(ctx))
	if q.Seq() != seq {
		t.Error("a hold that was over ended again")
	}
}

// TestTheEndOfAHoldServesWhoWaits has a consumer wait for a job on hold.
func TestTheEndOfAHoldServesWhoWaits(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{NotBefore: d.now().Add(time.Minute)}, "x")
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := q.NextWait(ctx, "w", 1)
		got <- err
	}()
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	must(t, <-got)
}

// TestHoldsOutliveTheProcess ends holds after the home was opened again, in each
// way it can have been left.
func TestHoldsOutliveTheProcess(t *testing.T) {
	for _, left := range []string{"crash", "files", "checkpoint", "stop", "rebuild"} {
		t.Run(left, func(t *testing.T) {
			var d dial
			dir := fastDir(t)
			o := queuefs.Options{Now: d.now}
			s, q := openHome(t, dir, o)
			fillQueue(t, q, 5, 1)
			for id := range queuefs.JobID(4) {
				_, err := q.HoldUntil(ctx, id+1, "", d.now().Add(time.Duration(5-id)*time.Minute)) // 4 ends first
				must(t, err)
			}
			_, err := q.HoldUntil(ctx, 3, "", d.now().Add(10*time.Minute))
			must(t, err)
			_, err = q.Hold(ctx, 2, "")
			must(t, err)
			switch left {
			case "crash":
				dir = copyHome(t, dir)
			case "files":
				d.turn(time.Second) // the burst is over
				must(t, s.Maintain(ctx))
				dir = copyHome(t, dir)
			case "checkpoint":
				must(t, s.Checkpoint(ctx))
				dir = copyHome(t, dir)
			}
			closeHome(t, s)
			if left == "rebuild" {
				_, err := check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true, Now: d.now})
				must(t, err)
			}
			s, q = openHome(t, dir, o)
			for _, step := range []struct {
				by        time.Duration
				available []queuefs.JobID
			}{
				{0, []queuefs.JobID{5}},
				{2 * time.Minute, []queuefs.JobID{4, 5}},
				{3 * time.Minute, []queuefs.JobID{1, 4, 5}},
				{5 * time.Minute, []queuefs.JobID{1, 3, 4, 5}},
				{time.Hour, []queuefs.JobID{1, 3, 4, 5}}, // 2 has no end
			} {
				d.turn(step.by)
				must(t, s.Expire(ctx))
				if got := available(t, q); !slices.Equal(got, step.available) {
					t.Errorf("after %v more: got %v want %v", step.by, got, step.available)
				}
				counted(t, q)
			}
			everywhere(t, s, dir)
		})
	}
}

// TestHoldsFollowTheClock sets the clock back, then far ahead: a hold ends when the
// clock shows its time.
func TestHoldsFollowTheClock(t *testing.T) {
	var d dial
	s, q := openWith(t, fastDir(t), queuefs.Options{Now: d.now}, func(i *queuefs.QueueInfo) { i.RetryDelay = time.Second })
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{NotBefore: d.now().Add(time.Hour)}, "x")
	d.turn(-24 * time.Hour)
	if j := submit(t, q, queuefs.Meta{NotBefore: d.now().Add(time.Hour)}, "x"); j.HeldUntil.IsZero() {
		t.Errorf("before the time of the last event: got %+v", j)
	}
	submit(t, q, queuefs.Meta{}, "x")
	taken := takeOne(t, q, time.Minute)
	j, err := q.Conclude(ctx, 3, taken.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Transient: true})
	if err != nil || !j.HeldUntil.Equal(d.now().Add(time.Second)) {
		t.Errorf("got %+v, %v", j, err)
	}
	for _, step := range []struct {
		by        time.Duration
		available []queuefs.JobID
	}{{0, nil}, {time.Second, []queuefs.JobID{3}}, {time.Hour, []queuefs.JobID{2, 3}}, {365 * 24 * time.Hour, []queuefs.JobID{1, 2, 3}}} {
		d.turn(step.by)
		must(t, s.Expire(ctx))
		if got := available(t, q); !slices.Equal(got, step.available) {
			t.Errorf("after %v more: got %v want %v", step.by, got, step.available)
		}
	}
}

// TestManyHoldsEndAtOnce ends more holds than one batch of events has.
func TestManyHoldsEndAtOnce(t *testing.T) {
	var d dial
	s, q := openHome(t, fastDir(t), queuefs.Options{Now: d.now})
	defer closeHome(t, s)
	const batches, each = 5, 500
	const n = batches * each
	for range batches {
		sub := q.Begin()
		for range each {
			_, err := sub.Add(queuefs.Meta{})
			must(t, err)
		}
		must(t, sub.NotBefore(d.now().Add(time.Minute)))
		_, err := sub.Commit(ctx)
		must(t, err)
	}
	if got := counted(t, q); got.Held != n {
		t.Errorf("got %d on hold", got.Held)
	}
	d.turn(time.Minute)
	must(t, s.Expire(ctx))
	if got := counted(t, q); got.Held != 0 || q.Seq() != 2*n {
		t.Errorf("got %d on hold after %d events", got.Held, q.Seq())
	}
}
