package queuefs_test

import (
	"fmt"
	"testing"
	"time"

	"cutie/queuefs"
)

// atEachStep calls do inside each step of a checkpoint in turn, and then opens
// the home as a crash behind the checkpoint would leave it. prepare comes
// before the checkpoint, check afterwards.
func atEachStep(t *testing.T, prepare func(s *queuefs.Service, q *queuefs.Queue), do, check func(q *queuefs.Queue)) {
	for at, more := 1, true; more; at++ {
		t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
			n := -1 // steps are not counted yet
			var q *queuefs.Queue
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Fault: func(step string, run func() error) error {
				err := run()
				if n >= 0 {
					if n++; n == at {
						n = -1 // the steps of do are others
						do(q)
					}
				}
				return err
			}})
			defer s.Close()
			prepare(s, q)
			n = 0
			must(t, s.Checkpoint(ctx))
			if more = n < 0; !more { // there is no such step
				n = -1
				return
			}
			copied := copyHome(t, dir)
			again, p := openHome(t, copied, queuefs.Options{Segment: smallSegment})
			check(p)
			closeHome(t, again)
			r, err := queuefs.Check(copied, queuefs.CheckOptions{Segment: smallSegment})
			if err != nil || len(r.Problems) > 0 {
				t.Errorf("check: %v, %v", err, r.Problems)
			}
		})
		if at > 1000 {
			t.Fatal("a checkpoint has no end")
		}
	}
}

// The pages of the index may know what came after the mark of their
// checkpoint; results that were to go then go all the same.
func TestResultsGoThatWentDuringACheckpoint(t *testing.T) {
	var id queuefs.JobID
	atEachStep(t, func(s *queuefs.Service, q *queuefs.Queue) {
		id = submit(t, q, queuefs.Meta{}, "payload").ID
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: time.Hour})
		must(t, err)
		must(t, putResult(q, id, taken[0].Token, "out", "result"))
		_, err = q.Conclude(ctx, id, taken[0].Token, queuefs.Conclusion{Outcome: queuefs.Failed})
		must(t, err)
		must(t, s.Checkpoint(ctx)) // the result has its name
		submit(t, q, queuefs.Meta{}, "another")
	}, func(q *queuefs.Queue) {
		_, err := q.Requeue(ctx, id)
		must(t, err)
	}, func(q *queuefs.Queue) {
		if j, err := q.Job(id); err != nil || j.Status != queuefs.Pending || len(j.Results) > 0 {
			t.Errorf("got %+v, %v", j, err)
		}
	})
}

// A job that was not acknowledged leaves no gap in the numbers of jobs.
func TestJobNumbersAfterACheckpointAndACrash(t *testing.T) {
	dir := fastDir(t)
	hold := false
	held, let := make(chan bool), make(chan bool)
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Fault: func(step string, run func() error) error {
		if hold && step == "journal write" {
			held <- true
			<-let
		}
		return run()
	}})
	defer closeHome(t, s)
	first := submit(t, q, queuefs.Meta{}, "payload").ID
	hold = true
	done := make(chan bool)
	go func() {
		defer close(done)
		submit(t, q, queuefs.Meta{}, "payload that is not on disk yet")
	}()
	<-held
	must(t, s.Checkpoint(ctx))
	again, p := openHome(t, copyHome(t, dir), queuefs.Options{Segment: smallSegment})
	if id := submit(t, p, queuefs.Meta{}, "payload").ID; id != first+1 {
		t.Errorf("the job after %v is %v", first, id)
	}
	closeHome(t, again)
	hold = false
	close(let)
	<-done
}
