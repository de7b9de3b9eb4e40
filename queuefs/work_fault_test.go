package queuefs_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
)

// on does one thing to one job.
func (c *scenario) on(what string, id queuefs.JobID, change func(*fact), op func(q *queuefs.Queue) error) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	c.again(what, c.known.set("jobs", id, change), func() error { return op(q) })
}

// again is do for what the rest of the scenario needs: what failed once works
// the second time.
func (c *scenario) again(what string, after world, op func() error) {
	var err error
	try := func() error { err = op(); return err }
	if c.do(what, after, try); err != nil && !c.over {
		c.do(what+" again", after, try)
	}
}

func worked(st queuefs.Status, work string) func(*fact) {
	return func(f *fact) { f.status, f.work = st, work }
}

// back is a job that went back to pending.
func back(work string) func(*fact) {
	return func(f *fact) { f.status, f.consumer, f.requeues, f.work = queuefs.Pending, "", f.requeues+1, work }
}

// lease takes the job at the head, which is id, and returns the token.
func (c *scenario) lease(id queuefs.JobID, d time.Duration) (token string) {
	c.on("lease", id, func(f *fact) { f.status, f.consumer, f.work = queuefs.Consumed, "w", "leased" }, func(q *queuefs.Queue) error {
		taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: d})
		if err == nil {
			if taken[0].ID != id {
				c.t.Errorf("took %v want %v", taken[0].ID, id)
			}
			token = taken[0].Token
		}
		return err
	})
	return token
}

func (c *scenario) result(id queuefs.JobID, token, name, content string) {
	c.on("result", id, func(f *fact) { f.work += "; result " + name + " text/plain " + content },
		func(q *queuefs.Queue) error { return putResult(q, id, token, name, content) })
}

func (c *scenario) conclude(id queuefs.JobID, token string, r queuefs.Conclusion, work string) {
	c.on("conclude", id, worked(queuefs.Consumed, work), func(q *queuefs.Queue) error {
		_, err := q.Conclude(ctx, id, token, r)
		return err
	})
}

func (c *scenario) requeueOne(id queuefs.JobID) {
	c.on("requeue", id, back(""), func(q *queuefs.Queue) error { _, err := q.Requeue(ctx, id); return err })
}

// requeueEnd puts a copy of job id at the end, as again.
func (c *scenario) requeueEnd(id, again queuefs.JobID) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	after := c.known.set("jobs", id, func(f *fact) {
		f.work = strings.TrimPrefix(f.work+"; requeuedAs "+again.String(), "; ")
	})
	old := after["jobs"].byID[id]
	after = after.set("jobs", again, func(f *fact) {
		*f = fact{status: queuefs.Pending, filename: old.filename, sidecar: old.sidecar, payload: old.payload, requeues: old.requeues + 1, work: "requeuedFrom " + id.String()}
	})
	c.again("requeue at the end", after, func() error { _, err := q.RequeueEnd(ctx, id); return err })
}

// runWork is a scenario of workers, over two lives.
func (c *scenario) runWork() {
	c.known = world{}
	c.open()
	var kept string
	until := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	if !c.over {
		c.create("jobs")
		if c.submit("jobs", 10, 3000, 200<<10, 5, 7); !c.over && c.known["jobs"].last == 0 {
			c.submit("jobs", 10, 3000, 200<<10, 5, 7)
		}
		c.on("hold", 1, worked(queuefs.Pending, `held "a"`), func(q *queuefs.Queue) error { _, err := q.Hold(ctx, 1, "a"); return err })
		c.describe(5, "named", "what it is")
		two := c.lease(2, 500*time.Hour)
		c.result(2, two, "out", "first")
		c.maintain()
		c.result(2, two, "log", "second")
		c.on("extend", 2, func(*fact) {}, func(q *queuefs.Queue) error { _, err := q.Extend(ctx, 2, two, 600*time.Hour); return err })
		three := c.lease(3, 500*time.Hour)
		for range 2 {
			c.on("retry", 3, back(`message "n"`), func(q *queuefs.Queue) error {
				_, err := q.Conclude(ctx, 3, three, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "n", Transient: true, RetryIn: new(time.Duration)})
				return err
			})
			three = c.lease(3, 500*time.Hour)
		}
		c.conclude(3, three, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "m", Transient: true}, `error; transient; message "m"`)
		c.checkpoint()
		c.on("hold until", 5, worked(queuefs.Pending, `held "c"; until `+queuefs.FormatTime(until)), func(q *queuefs.Queue) error {
			_, err := q.HoldUntil(ctx, 5, "c", until)
			return err
		})
		c.describe(5, "named again", strings.Repeat("more of it ", 500))
		c.requeueEnd(3, 6)
		c.requeueOne(2)
		c.on("release", 1, worked(queuefs.Pending, ""), func(q *queuefs.Queue) error { _, err := q.Release(ctx, 1); return err })
		c.on("abort", 4, worked(queuefs.Deleted, `aborted; message "no"`), func(q *queuefs.Queue) error { _, err := q.Abort(ctx, 4, "no"); return err })
		one := c.lease(1, 500*time.Hour)
		c.on("return", 1, back(`message "later"`), func(q *queuefs.Queue) error { _, err := q.Return(ctx, 1, one, "later"); return err })
		c.lease(1, time.Hour)
		kept = c.lease(2, 500*time.Hour)
		c.result(2, kept, "out", "third")
	}
	c.close()
	if c.over {
		return
	}
	if c.open(); !c.over {
		c.result(2, kept, "more", "fourth")
		c.maintain()
		c.conclude(2, kept, queuefs.Conclusion{Outcome: queuefs.Completed}, "completed; result out text/plain third; result more text/plain fourth")
		c.checkpoint()
		c.on("requeue at", 2, back(""), func(q *queuefs.Queue) error { return requeueAt(q, 2, 0) })
		c.requeueOne(4)
		c.skew.Store(int64(time.Hour))
		c.on("expire", 1, back(""), func(q *queuefs.Queue) error { return c.s.Expire(ctx) })
		c.skew.Store(int64(7 * time.Hour))
		c.on("end the hold", 5, worked(queuefs.Pending, ""), func(q *queuefs.Queue) error { return c.s.Expire(ctx) })
		c.on("hold", 1, worked(queuefs.Pending, `held "b"`), func(q *queuefs.Queue) error { return holdAt(q, 1, 0, "b") })
		c.submit("jobs", 6000)
		c.draft(8, 9)
	}
	c.close()
}

// draft submits a job on hold, puts another one in its place, and gives that a
// destruction.
func (c *scenario) draft(id, next queuefs.JobID) {
	if c.over {
		return
	}
	q := c.queue("jobs")
	held := fmt.Sprintf("held %q; name ", queuefs.NotStarted)
	meta := queuefs.Meta{OnHold: true, Name: func(id queuefs.JobID) anvl.Element { return anvl.Element{Name: "name", Value: "of " + id.String()} }}
	put := func(m queuefs.Meta, former queuefs.JobID, payload string) error {
		sub := q.Begin()
		defer sub.Discard()
		sub.Replace(former)
		d, err := sub.Add(m)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, payload); err != nil {
			return err
		}
		_, err = sub.Commit(ctx)
		return err
	}
	after := c.known.set("jobs", id, func(f *fact) {
		*f = fact{status: queuefs.Pending, payload: "draft", work: held + "of " + id.String()}
	})
	c.again("submit on hold", after, func() error { return put(meta, 0, "draft") })
	if c.over {
		return
	}
	large := strings.Repeat("another ", 30_000)
	after = c.known.set("jobs", id, func(f *fact) {
		f.status, f.work = queuefs.Deleted, "name of "+id.String()+"; requeuedAs "+next.String()
	})
	after = after.set("jobs", next, func(f *fact) {
		*f = fact{status: queuefs.Pending, payload: large, work: held + "of " + next.String() + "; requeuedFrom " + id.String()}
	})
	c.again("replace", after, func() error { return put(meta, id, large) })
	c.on("amend", next, func(f *fact) { f.work = strings.Replace(f.work, "; name", "; destruction 2030-01-01; name", 1) }, func(q *queuefs.Queue) error {
		_, err := q.Amend(ctx, next, func(j *queuefs.Job) error {
			j.Destruction = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			return nil
		})
		return err
	})
	c.on("release", next, func(f *fact) { f.work = f.work[strings.Index(f.work, "destruction"):] },
		func(q *queuefs.Queue) error { _, err := q.Release(ctx, next); return err })
}

// TestEveryStepOfWorkFails is TestEveryStepFails for what workers do.
func TestEveryStepOfWorkFails(t *testing.T) {
	failEveryStep(t, 2*stride()-1, (*scenario).runWork)
}
