package queuefs_test

import (
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// TestClockStepsBack sets the clock back while the home is open, over a stop,
// and over a crash: job numbers and times of events still grow.
func TestClockStepsBack(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	o := queuefs.Options{Now: func() time.Time { return at }}
	dir := fastDir(t)
	f := newFollower(t)
	s, q := openHome(t, dir, o)
	f.follow(s)
	work := func(last queuefs.JobID) queuefs.JobID {
		t.Helper()
		for range 3 {
			j := submit(t, q, queuefs.Meta{}, "x")
			if j.ID <= last {
				t.Errorf("got %v after %v", j.ID, last)
			}
			last = j.ID
		}
		j, err := q.Next(ctx, "w")
		if err != nil || !j.Consumed.After(j.Submitted) {
			t.Errorf("got %+v, %v", j, err)
		}
		if j, err = q.Requeue(ctx, j.ID); err != nil || !j.Requeued.After(j.Submitted) {
			t.Errorf("got %+v, %v", j, err)
		}
		f.check(q)
		if st := q.State(); st.LastSubmission.After(st.LastEvent) || st.LastConsumption.Before(st.LastSubmission) {
			t.Errorf("got %+v", st)
		}
		if err := s.Maintain(ctx); err != nil {
			t.Error(err)
		}
		return last
	}
	last := work(0)
	at = at.Add(-time.Hour)
	last = work(last)
	closeHome(t, s)

	at = at.Add(-time.Hour)
	s, q = openHome(t, dir, o)
	f.follow(s)
	last = work(last)
	crashed := copyHome(t, dir)
	closeHome(t, s)

	at = at.Add(-24 * time.Hour)
	s, q = openHome(t, crashed, o)
	f.follow(s)
	last = work(last)
	closeHome(t, s)

	// From the directories alone.
	at = at.Add(-time.Hour)
	r, err := check.Home(crashed, check.Options{Rebuild: true, Segment: segmentSize, Now: o.Now})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %v, %+v", err, r)
	}
	s, q = openHome(t, crashed, o)
	defer closeHome(t, s)
	f.follow(s)
	work(last)

	// A queue made when the clock was ahead does not wait for it.
	at = at.Add(time.Hour)
	late, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "late"})
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(-time.Hour)
	if j := submit(t, late, queuefs.Meta{}, "x"); j.ID != 1 || !j.Submitted.After(late.Info().Created) {
		t.Errorf("got %+v, queue of %v", j, late.Info().Created)
	}
}
