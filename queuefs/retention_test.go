package queuefs_test

import (
	"slices"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/check"
)

// dueAll asks until the queue knows what it has, and returns what is due.
func dueAll(t testing.TB, q *queuefs.Queue, now time.Time) (ids []queuefs.JobID) {
	t.Helper()
	for range 10 {
		var err error
		ids, err = q.Due(ctx, now, 1000)
		must(t, err)
	}
	slices.Sort(ids)
	return ids
}

// destroyAt gives a job its destruction; the zero time takes it away.
func destroyAt(t testing.TB, q *queuefs.Queue, id queuefs.JobID, at time.Time) {
	t.Helper()
	_, err := q.Amend(ctx, id, func(j *queuefs.Job) error {
		j.Destruction = at
		return nil
	})
	must(t, err)
}

// The destruction of jobs comes in its time, whichever way the home was opened.
func TestDueJobsAreNamed(t *testing.T) {
	now := newClock()
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: now.now})
	at := now.now().Add(time.Hour)
	for id := queuefs.JobID(1); id <= 8; id++ {
		m := queuefs.Meta{}
		if id%2 == 0 {
			m.Destruction = at.Add(time.Duration(id) * time.Minute)
		}
		submit(t, q, m, "x")
	}
	destroyAt(t, q, 1, at)
	destroyAt(t, q, 8, time.Time{})
	for range 3 {
		_, err := q.Next(ctx, "w")
		must(t, err)
	}
	inspect := func(when string) {
		t.Helper()
		for after, want := range map[time.Duration][]queuefs.JobID{-time.Second: nil, 0: {1}, 3 * time.Minute: {1, 2}, 24 * time.Hour: {1, 2, 4, 6}} {
			if got := dueAll(t, q, at.Add(after)); !slices.Equal(got, want) {
				t.Errorf("%s, %v: got %v, want %v", when, after, got, want)
			}
		}
	}
	inspect("at first")
	killed := copyHome(t, dir)
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Now: now.now})
	inspect("after a stop")
	if id := submit(t, q, queuefs.Meta{Destruction: at.Add(48 * time.Hour)}, "x").ID; !slices.Contains(dueAll(t, q, at.Add(72*time.Hour)), id) {
		t.Errorf("job %v that came after the start is not named", id)
	}
	closeHome(t, s)
	s, q = openHome(t, killed, queuefs.Options{Now: now.now})
	inspect("after a kill")
	closeHome(t, s)
	_, err := check.Home(killed, check.Options{Rebuild: true, Segment: segmentSize})
	must(t, err)
	s, q = openHome(t, killed, queuefs.Options{Now: now.now})
	inspect("after a rebuild")
	closeHome(t, s)
}

// Culling leaves a job until its destruction, and one that was put at the end
// again as long as the job that was made of it.
func TestCullingLeavesWhatIsRetained(t *testing.T) {
	now := newClock()
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: now.now})
	_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.CullingSize = 0 }))
	must(t, err)
	next := func() {
		t.Helper()
		_, err := q.Next(ctx, "w")
		must(t, err)
	}
	cull := func(when string, want ...queuefs.JobID) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			var got []queuefs.JobID
			for _, c := range culled(t, s, queuefs.CullOptions{Dry: dry}) {
				got = append(got, c.Job)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, dry %v: got %v, want %v", when, dry, got, want)
			}
		}
	}
	submit(t, q, queuefs.Meta{Destruction: now.now().Add(time.Hour)}, "x")
	submit(t, q, queuefs.Meta{}, "x")
	submit(t, q, queuefs.Meta{Destruction: now.now().Add(3 * time.Hour)}, "x")
	for range 3 {
		next()
	}
	_, err = q.RequeueEnd(ctx, 2)
	must(t, err)
	cull("at first")
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Now: now.now})
	cull("before the job files were read")
	now.forward(2 * time.Hour)
	cull("after the destruction of the first", 1)
	next()
	destroyAt(t, q, 3, now.now().Add(9*time.Hour))
	cull("after the second was done again", 4)
	cull("after that was culled", 2)
	now.forward(2 * time.Hour)
	cull("with a later destruction")
	destroyAt(t, q, 3, time.Time{})
	cull("without a destruction", 3)
	closeHome(t, s)
}

// A job that waits for its submitter is handed out when it is released.
func TestASubmissionOnHold(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	meta := queuefs.Meta{OnHold: true, Name: func(id queuefs.JobID) anvl.Element { return anvl.Element{Name: "name", Value: id.String()} }}
	submit(t, q, meta, "first")
	if _, err := q.Next(ctx, "w"); err != queuefs.ErrEmpty {
		t.Errorf("got %v, want that no job is there", err)
	}
	sub := q.Begin()
	sub.Replace(1)
	d, err := sub.Add(meta)
	must(t, err)
	d.Write([]byte("second"))
	_, err = sub.Commit(ctx)
	must(t, err)
	sub = q.Begin()
	defer sub.Discard()
	sub.Replace(1)
	_, err = sub.Add(meta)
	must(t, err)
	if _, err := sub.Commit(ctx); err == nil {
		t.Error("a job that is gone was replaced")
	}
	if state := q.State(); state.Pending != 1 || state.Held != 1 || state.Deleted != 1 {
		t.Errorf("got %d pending, %d held, %d deleted", state.Pending, state.Held, state.Deleted)
	}
	j, err := q.Release(ctx, 2)
	must(t, err)
	if j.Extra.Value("name") != "j000000000002" || j.Extra.Value("requeuedFrom") != "j000000000001" {
		t.Errorf("got %v", j.Extra)
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w"})
	must(t, err)
	if got := payload(t, q, taken[0].ID); got != "second" {
		t.Errorf("got payload %q", got)
	}
}
