package queuefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/keys"
)

func checkLease(d time.Duration) error {
	if d < 0 || d > MaxLease {
		return fmt.Errorf("%w: a lease of %v is not between 0 and %v", ErrBadName, d, MaxLease)
	}
	return nil
}

// leaseEnd is the end of a lease of d from now, in the precision of job files.
func (q *Queue) leaseEnd(d time.Duration) time.Time {
	return micro(q.svc.now()).Add(d.Round(time.Microsecond))
}

// Extend makes the lease of a job end after d from now, at most MaxLease; 0
// means the lease of the queue, or DefaultLease. A consumer calls it as a
// heartbeat. The error is [ErrLease] if token is not, or no longer, that of the
// lease.
func (q *Queue) Extend(ctx context.Context, id JobID, token string, d time.Duration) (Job, error) {
	if err := checkLease(d); err != nil {
		return Job{}, err
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		d := q.info().LeaseFor(d)
		if d == 0 {
			d = DefaultLease
		}
		j.Lease.Ends = q.leaseEnd(d)
		return Extend, nil
	})
}

// Conclude ends the lease of a job with the outcome reported by its consumer. After
// a transient failure before the last of MaxAttempts the job is pending again
// instead, with the message, and on hold for RetryIn or as long as the queue says.
// The error is [ErrLease] if token is not, or no longer, the lease's: late and
// second reports change nothing.
func (q *Queue) Conclude(ctx context.Context, id JobID, token string, r Conclusion) (Job, error) {
	if r.Outcome != Completed && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: a consumer reports %v or %v, not %v", ErrBadName, Completed, Failed, r.Outcome)
	}
	if r.Transient && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: what was completed has no transient error", ErrBadName)
	}
	if in := r.RetryIn; in != nil && (!r.Transient || *in < 0 || *in > MaxLease) {
		return Job{}, fmt.Errorf("%w: a time until another attempt is of a transient error, and from 0 to %v", ErrBadName, MaxLease)
	}
	var err error
	if r.Message, err = job.CleanText(r.Message); err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		if !r.Transient || q.lastAttempt(j) {
			j.Conclude(t, r)
			return Conclude, nil
		}
		wait := q.info().RetryFailed(j.Attempts)
		if r.RetryIn != nil {
			wait = *r.RetryIn
		}
		j.Retry(t, q.retryAt(wait), r.Message)
		return Requeue, nil
	})
}

// Return gives a job back without an outcome: it is pending again at once,
// however often it was handed out, and keeps the message until it is taken. The
// error is [ErrLease] as for Conclude.
func (q *Queue) Return(ctx context.Context, id JobID, token, message string) (Job, error) {
	message, err := job.CleanText(message)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		j.GoBack(t)
		j.Message = message
		return Requeue, nil
	})
}

// Abort takes a job out of work: a pending one is Deleted, the lease of a
// consumed one is revoked; the outcome of both is Aborted. Of any other job
// the error is [ErrConflict]. The consumer may still hand in results for
// [LateResults].
func (q *Queue) Abort(ctx context.Context, id JobID, why string) (Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, 0, nil, func(j *Job, t time.Time) (Kind, error) {
		kind := Conclude
		switch {
		case j.Status == Pending:
			kind = Delete
			j.Delete(t)
		case j.Status != Consumed || j.Lease.Ends.IsZero():
			return 0, fmt.Errorf("%w: %v is %v and nobody works on it", ErrConflict, j.ID, j.Status)
		}
		j.Abort(t, why)
		return kind, nil
	})
}

// AbortAttempt is [Queue.Abort] of a job in work since the given instant. If
// the work has ended meanwhile, or began anew, the error is [ErrConflict].
func (q *Queue) AbortAttempt(ctx context.Context, id JobID, since time.Time, why string) (Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrConflict, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Consumed || j.Lease.Ends.IsZero() || !j.Consumed.Equal(since) {
			return 0, fmt.Errorf("%w: nobody works on %v since %s", ErrConflict, j.ID, FormatTime(since))
		}
		j.Abort(t, why)
		return Conclude, nil
	})
}

// leased returns [ErrLease] unless the token is the one of the job's lease.
func (q *Queue) leased(j *Job, token string) error {
	if j.Status != Consumed || !j.Lease.Opens(token, q.svc.opts.Now()) {
		return fmt.Errorf("%v: %w", j.ID, ErrLease)
	}
	return nil
}

// Expire ends the leases and the holds up to now. After a lease, jobs of a queue
// with AckTimeout are completed; others are put back or fail, as after a transient
// failure, see [Queue.Conclude]. After a hold, jobs are released; after a rest,
// see [Queue.Rest], they are available again. Call it a few
// times a second: its cost is the number of ended leases and holds.
func (s *Service) Expire(ctx context.Context) error {
	if s.Standby() {
		return nil // its owner does it
	}
	if s.shared.Resting.Load() > 0 {
		for _, q := range s.Queues() {
			q.ledger.EndRests(s.now())
		}
	}
	for _, q := range s.Timed() {
		for {
			if err := errors.Join(ctx.Err(), s.usable()); err != nil {
				return err
			}
			n, err := q.expire(s.now())
			if err != nil {
				return fmt.Errorf("queue %s: leases and holds: %w", q.ID(), err)
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// expire ends up to MaxTake leases and as many holds, and returns how many.
func (q *Queue) expire(now int64) (int, error) {
	leases, err := q.end(now, func(x *index.Index) *index.Deadlines { return &x.Leases }, q.lapse)
	if err != nil {
		return leases, err
	}
	holds, err := q.end(now, func(x *index.Index) *index.Deadlines { return &x.Holds }, func(j *Job, _ time.Time) (Kind, error) {
		j.Unhold()
		return Release, nil
	})
	return leases + holds, err
}

// unreadAgain is the time until the end of a lease or a hold is tried again for a job that
// cannot be read.
const unreadAgain = 10 * time.Second

// end makes an event of each of up to MaxTake jobs whose deadline has passed, and
// returns how many. A job with another operation on its way is left for the next
// call.
func (q *Queue) end(now int64, of func(*index.Index) *index.Deadlines, do edit) (int, error) {
	due := false
	q.look(func(x *index.Index) { due = of(x).Passed(now) })
	if !due {
		return 0, nil
	}
	var ids []JobID
	q.ledger.Note(func(x *index.Index) {
		of(x).Due(now, func(id JobID) bool {
			if x.Claim(id) {
				ids = append(ids, id)
			}
			return len(ids) < MaxTake
		})
	})
	if len(ids) == 0 {
		return 0, nil
	}
	jobs, err := q.change(ids, do)
	if u, ok := errors.AsType[*content.UnreadError](err); ok { // the others do not wait for it
		q.ledger.Note(func(x *index.Index) { of(x).Set(u.Job, now+unreadAgain.Microseconds()) })
	}
	if err == nil {
		q.svc.assist(q, len(jobs))
	}
	return len(jobs), err
}

// lapse ends an attempt without a report.
func (q *Queue) lapse(j *Job, t time.Time) (Kind, error) {
	if q.info().Acknowledge == AckTimeout {
		j.Conclude(t, Conclusion{Outcome: Completed, Message: "no report"})
		return Conclude, nil
	}
	if q.lastAttempt(j) {
		j.Conclude(t, Conclusion{Outcome: Failed, Message: "lease expired, no attempts left", Transient: true})
		return Conclude, nil
	}
	j.Retry(t, q.retryAt(q.info().RetryLapsed(j.Attempts)), "")
	return Requeue, nil
}

// retryAt is the time of another attempt after a wait; zero for at once. It is by the
// clock: times of events are ahead of a clock set back.
func (q *Queue) retryAt(wait time.Duration) time.Time {
	if wait == 0 {
		return time.Time{}
	}
	return q.leaseEnd(wait)
}

// lastAttempt reports whether the job has no attempt after this one.
func (q *Queue) lastAttempt(j *Job) bool {
	most := q.info().MaxAttempts
	return most > 0 && j.Attempts >= most
}

// findLeases loads the leases marked in the index, and the keys of consumers, from their
// job files.
func (q *Queue) findLeases() error {
	var ids []JobID
	q.look(func(x *index.Index) { ids = x.Leased() })
	for _, id := range ids {
		var version Seq
		q.look(func(x *index.Index) { version = x.Version(id) })
		j, err := q.Job(id)
		if errors.Is(err, ErrUnread) { // some end is better than a home that stays shut
			q.svc.report(q.tree.Path(Consumed.String(), id.String()), err.Error()+"; its lease ends in "+DefaultLease.String())
			j.Lease.Ends = q.leaseEnd(DefaultLease)
		} else if err != nil {
			return err
		}
		// A lease with a lost or edited job file is over at once.
		ends := max(j.Lease.Ends.UnixMicro(), 1)
		q.ledger.Note(func(x *index.Index) {
			if x.Version(id) == version { // else its consumer was quicker
				x.Leases.Set(id, ends)
			}
		})
		q.takes.Follow(&Job{}, &j)
	}
	return q.findKeys()
}

// findKeys loads the keys of consumers in force without a lease.
func (q *Queue) findKeys() error {
	var ids []JobID
	q.look(func(x *index.Index) { ids = x.Keyed(q.svc.now() - keys.Remembered.Microseconds()) })
	for _, id := range ids {
		j, err := q.Job(id)
		if errors.Is(err, ErrUnread) {
			continue
		}
		if err != nil {
			return err
		}
		q.takes.Follow(&Job{}, &j)
	}
	return nil
}
