package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/queuefs/job"
)

// MaxTake is how many jobs one call may take.
const MaxTake = 1000

// A Take is a request for jobs.
type Take struct {
	By    string        // user agent of the consumer
	Max   int           // jobs at most; 0 means 1, and no more than MaxTake are given
	Lease time.Duration // at most MaxLease; 0 means the one of the queue if it wants reports, else none
	Keep  bool          // they are not culled before [Queue.Given] is called
}

// A Taken is a job for its consumer.
type Taken struct {
	Job
	Token string // proof of the lease; "" without one

	payload []byte
	kept    bool // for Given
}

// AtHand returns the payload, not to be written to, if it came along with the
// job at no cost; it may be empty. If it did not, AtHand returns nil, and
// [Queue.Payload] opens it.
func (t *Taken) AtHand() []byte { return t.payload }

// A waiter is a consumer waiting for jobs. Waiters are served in the order of
// their calls.
type waiter struct {
	max   int
	taken []JobID
	ready chan struct{} // closed once taken is filled
}

// Take takes jobs from the head of the queue and makes them Consumed, with one
// sync (Cutie 0.3, 5.6): fewer than Max if their sidecars are large, and no jobs
// on hold. Each comes with a lease if one was asked for or the queue wants
// reports: until it ends the consumer calls Extend, Conclude or Return with the
// token, else see [Service.Expire]. A job with a missing or truncated payload is
// reported and put on hold instead, on a queue with verification also one with a
// damaged payload. If there is no job, or the queue is paused, the error is
// [ErrEmpty]. Two concurrent calls get the jobs, and their events, in any order.
func (q *Queue) Take(ctx context.Context, t Take) ([]Taken, error) {
	if err := q.checkTake(&t); err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		ids := q.claim(t.Max)
		q.mu.Unlock()
		if len(ids) == 0 {
			return nil, ErrEmpty
		}
		if taken, err := q.handOut(ctx, ids, t); len(taken) > 0 || err != nil {
			return taken, err
		}
	}
}

// TakeWait is Take with a wait for a job until ctx ends; then it returns
// [ErrEmpty]. Waiters are served in the order of their calls; after the end of its
// ctx a waiter takes no job.
func (q *Queue) TakeWait(ctx context.Context, t Take) ([]Taken, error) {
	if err := q.checkTake(&t); err != nil {
		return nil, err
	}
	for {
		ids, err := q.await(ctx, t.Max)
		if err != nil {
			return nil, err
		}
		taken, err := q.handOut(ctx, ids, t)
		switch {
		case err != nil && errors.Is(err, ctx.Err()):
			return nil, ErrEmpty
		case err != nil || len(taken) > 0:
			return taken, err
		}
	}
}

func (q *Queue) checkTake(t *Take) error {
	if t.Max == 0 {
		t.Max = 1
	}
	t.By = job.CleanLabel(t.By[:min(len(t.By), job.MaxLabel)])
	if err := checkLease(t.Lease); err != nil {
		return err
	}
	return q.svc.usable()
}

// await claims jobs, and waits for them until ctx ends.
func (q *Queue) await(ctx context.Context, max int) ([]JobID, error) {
	if ctx.Err() != nil {
		return nil, ErrEmpty
	}
	q.mu.Lock()
	if q.life.gone {
		q.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", q.id, ErrNoQueue)
	}
	if len(q.consumers.line) == 0 {
		if ids := q.claim(max); len(ids) > 0 {
			q.mu.Unlock()
			return ids, nil
		}
	}
	w := &waiter{max: max, ready: make(chan struct{})}
	q.consumers.line = append(q.consumers.line, w)
	q.mu.Unlock()

	stopped := q.svc.sleep(ctx, w.ready)
	switch {
	case ctx.Err() != nil:
		stopped = nil
	case stopped == nil && len(w.taken) > 0:
		return w.taken, nil
	}
	q.mu.Lock()
	if i := slices.Index(q.consumers.line, w); i >= 0 {
		q.consumers.line = slices.Delete(q.consumers.line, i, i+1)
	}
	taken := w.taken
	if q.life.gone {
		stopped = fmt.Errorf("%s: %w", q.id, ErrNoQueue)
	}
	q.mu.Unlock()
	q.release(taken...)
	if stopped != nil {
		return nil, stopped
	}
	return nil, ErrEmpty
}

// claim takes up to max available jobs for one operation, lowest number first,
// unless the queue is paused; q.mu is held.
func (q *Queue) claim(max int) []JobID {
	max = min(max, MaxTake)
	if max <= 0 || q.paused() {
		return nil
	}
	return q.idx.ClaimFirst(max)
}

// serve hands available jobs to waiters; q.mu is held.
func (q *Queue) serve() {
	for len(q.consumers.line) > 0 && q.idx.Counts.Available > 0 && !q.paused() {
		w := q.consumers.line[0]
		q.consumers.line = slices.Delete(q.consumers.line, 0, 1)
		w.taken = q.claim(w.max)
		close(w.ready)
	}
}

func (q *Queue) paused() bool { return !q.set.info.Paused.IsZero() }

// handOut makes claimed jobs Consumed. It returns none if all of them had to
// be put on hold.
func (q *Queue) handOut(ctx context.Context, ids []JobID, t Take) ([]Taken, error) {
	q.readAhead(ids[len(ids)-1])
	ids, err := q.sound(ctx, ids)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	jobs, payloads, err := q.fetch(ids, true)
	if err != nil {
		q.release(ids...)
		return nil, err
	}
	q.keep(t.unread(ids, payloads))
	var tokens map[JobID]string
	jobs, err = q.enact(jobs, func(j *Job, at time.Time) (Kind, error) {
		j.Enter(Consumed)
		j.Consumed, j.Consumer, j.Message = at, t.By, ""
		j.Attempts++
		if d := q.set.info.LeaseFor(t.Lease); d > 0 {
			if tokens == nil {
				tokens = map[JobID]string{}
			}
			tokens[j.ID] = job.NewToken()
			j.Lease = Lease{Ends: q.leaseEnd(d), Key: job.LeaseKey(tokens[j.ID])}
		}
		return Consume, nil
	})
	q.letGo(t.unread(ids[len(jobs):], payloads[len(jobs):]))
	if err != nil {
		return nil, err
	}
	q.svc.assist(q, len(jobs))
	taken := make([]Taken, len(jobs))
	for i := range jobs {
		taken[i] = Taken{Job: jobs[i], Token: tokens[jobs[i].ID], payload: payloads[i], kept: t.Keep && payloads[i] == nil}
	}
	return taken, nil
}
