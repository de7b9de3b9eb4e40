package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// roomySegment is so large that none is prepared in the background.
const roomySegment = 1 << 20

// atEachStep calls do inside each step of a checkpoint in turn, and then opens
// the home as a crash behind the checkpoint would leave it. prepare comes
// before the checkpoint, check afterwards.
func atEachStep(t *testing.T, prepare func(s *queuefs.Service, q *queuefs.Queue), do, inspect func(q *queuefs.Queue)) {
	for at, more := 1, true; more; at++ {
		t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
			n := -1 // steps are not counted yet
			var mu sync.Mutex
			due := func() bool {
				mu.Lock()
				defer mu.Unlock()
				if n < 0 {
					return false
				}
				n++
				return n == at
			}
			count := func(from int) (was int) {
				mu.Lock()
				defer mu.Unlock()
				was, n = n, from
				return was
			}
			var q *queuefs.Queue
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment, Fault: func(step string, run func() error) error {
				err := run()
				if due() {
					count(-1) // the steps of do are others
					do(q)
				}
				return err
			}})
			defer s.Close()
			prepare(s, q)
			count(0)
			must(t, s.Checkpoint(ctx))
			if more = count(-1) < 0; !more { // there is no such step
				return
			}
			copied := copyHome(t, dir)
			again, p := openHome(t, copied, queuefs.Options{Segment: roomySegment})
			inspect(p)
			closeHome(t, again)
			r, err := check.Home(copied, check.Options{Segment: roomySegment})
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

// A journal that has lost its end says nothing of the results that came then:
// they are set aside, not removed.
func TestResultsOutliveTheEndOfTheJournal(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment})
	work := func() queuefs.Taken {
		submit(t, q, queuefs.Meta{}, "payload")
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: time.Hour})
		must(t, err)
		return taken[0]
	}
	other := work()
	must(t, putResult(q, other.ID, other.Token, "out", "result"))
	must(t, s.Checkpoint(ctx))
	job := work()
	early := copyHome(t, dir)
	must(t, putResult(q, job.ID, job.Token, "out", "the only copy"))
	_, err := q.Conclude(ctx, job.ID, job.Token, queuefs.Conclusion{Outcome: queuefs.Failed})
	must(t, err)
	placed := filepath.Join(dir, "queues/jobs/result", job.ID.String(), "out")
	for _, err := os.Stat(placed); err != nil; _, err = os.Stat(placed) {
		must(t, s.Maintain(ctx)) // files follow the journal
	}
	late := copyHome(t, dir)
	closeHome(t, s)
	must(t, os.RemoveAll(filepath.Join(late, "log/journal")))
	must(t, os.Rename(filepath.Join(early, "log/journal"), filepath.Join(late, "log/journal")))

	again, _ := openHome(t, late, queuefs.Options{Segment: roomySegment})
	closeHome(t, again)
	_, err = check.Home(late, check.Options{Segment: roomySegment, Repair: true})
	must(t, err)
	data, err := os.ReadFile(filepath.Join(late, "queues/jobs/corrupt", "result-"+job.ID.String()+"-out"))
	if err != nil || string(data) != "the only copy" {
		t.Errorf("set aside: %q, %v", data, err)
	}
}

// A job that was not acknowledged leaves no gap in the numbers of jobs.
func TestJobNumbersAfterACheckpointAndACrash(t *testing.T) {
	dir := fastDir(t)
	var hold atomic.Bool
	held, let := make(chan bool), make(chan bool)
	s, q := openHome(t, dir, queuefs.Options{Segment: roomySegment, Fault: func(step string, run func() error) error {
		if hold.Load() && step == "journal write" {
			held <- true
			<-let
		}
		return run()
	}})
	defer closeHome(t, s)
	first := submit(t, q, queuefs.Meta{}, "payload").ID
	hold.Store(true)
	done := make(chan bool)
	go func() {
		defer close(done)
		submit(t, q, queuefs.Meta{}, "payload that is not on disk yet")
	}()
	<-held
	must(t, s.Checkpoint(ctx))
	again, p := openHome(t, copyHome(t, dir), queuefs.Options{Segment: roomySegment})
	if id := submit(t, p, queuefs.Meta{}, "payload").ID; id != first+1 {
		t.Errorf("the job after %v is %v", first, id)
	}
	closeHome(t, again)
	hold.Store(false)
	close(let)
	<-done
}
