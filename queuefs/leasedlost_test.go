package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cutie/queuefs"
)

// A job in work whose job file is gone is put on hold when its lease ends, or at once where
// the lease is lost with it: what its consumer has done is not known, nor its attempts.
func TestAJobInWorkWithoutItsFileIsPutOnHold(t *testing.T) {
	for _, how := range []string{"removed while served", "removed after a stop", "removed after a crash", "cut after a stop", "cut after a crash"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			now := time.Now()
			o := queuefs.Options{Now: func() time.Time { return now }}
			s, q := openWith(t, dir, o, func(i *queuefs.QueueInfo) { i.Acknowledge, i.Lease = queuefs.AckRequired, time.Minute })
			submit(t, q, queuefs.Meta{}, "x")
			j, err := q.Next(ctx, "w")
			must(t, err)
			must(t, s.Checkpoint(ctx))
			file := func() string { return filepath.Join(dir, "queues/jobs/consumed", j.ID.String()) }
			switch how {
			case "removed while served":
				must(t, os.Remove(file()))
			case "removed after a stop", "cut after a stop":
				closeHome(t, s)
			default:
				copied := copyHome(t, dir)
				closeHome(t, s)
				dir = copied
			}
			switch how {
			case "removed after a stop", "removed after a crash":
				must(t, os.Remove(file()))
			case "cut after a stop", "cut after a crash":
				must(t, os.Truncate(file(), 10))
			}
			if how != "removed while served" {
				s, q = openHome(t, dir, o)
			}
			defer closeHome(t, s)
			now = now.Add(2 * time.Minute)
			must(t, s.Expire(ctx))
			if j, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) {
				t.Errorf("handed out again: %v, attempt %d, %v", j.ID, j.Attempts, err)
			}
			if j, err := q.Job(1); err != nil || j.Held.IsZero() || j.HeldFor != "job file lost or damaged; the index knows less of the job" {
				t.Errorf("the job is %+v, %v", j, err)
			}
		})
	}
}
