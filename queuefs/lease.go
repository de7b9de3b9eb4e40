package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

func checkLease(d time.Duration) error {
	if d < 0 || d > home.MaxLease {
		return fmt.Errorf("%w: a lease of %v is not between 0 and %v", job.ErrBadName, d, home.MaxLease)
	}
	return nil
}

// leaseEnd is the end of a lease of d from now, in the precision of job files.
func (q *Queue) leaseEnd(d time.Duration) time.Time {
	return job.Instant(q.svc.now()).Add(d.Round(time.Microsecond))
}

// Extend makes the lease of a job end after d from now, at most MaxLease; 0
// means the lease of the queue, or DefaultLease. A consumer calls it as a
// heartbeat. The error is [ErrLease] if token is not, or no longer, that of the
// lease.
func (q *Queue) Extend(ctx context.Context, id job.ID, token string, d time.Duration) (job.Job, error) {
	if err := checkLease(d); err != nil {
		return job.Job{}, err
	}
	return q.alter(ctx, id, job.Consumed, ErrLease, func(j *job.Job, t time.Time) (job.Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		// Also of a queue that wants no reports: this consumer has a lease.
		j.Lease.Ends = q.leaseEnd(cmp.Or(d, q.info().Lease, home.DefaultLease))
		return job.Extend, nil
	})
}

// Conclude ends the lease of a job with the outcome reported by its consumer. After
// a transient failure before the last of MaxAttempts the job is pending again
// instead, with the message, and on hold for RetryIn or as long as the queue says.
// The error is [ErrLease] if token is not, or no longer, the lease's: late and
// second reports change nothing.
func (q *Queue) Conclude(ctx context.Context, id job.ID, token string, r job.Conclusion) (job.Job, error) {
	if r.Outcome != job.Completed && r.Outcome != job.Failed {
		return job.Job{}, fmt.Errorf("%w: a consumer reports %v or %v, not %v", job.ErrBadName, job.Completed, job.Failed, r.Outcome)
	}
	if r.Transient && r.Outcome != job.Failed {
		return job.Job{}, fmt.Errorf("%w: what was completed has no transient error", job.ErrBadName)
	}
	if in := r.RetryIn; in != nil && (!r.Transient || *in < 0 || *in > home.MaxLease) {
		return job.Job{}, fmt.Errorf("%w: a time until another attempt is of a transient error, and from 0 to %v", job.ErrBadName, home.MaxLease)
	}
	var err error
	if r.Message, err = job.CleanText(r.Message); err != nil {
		return job.Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, job.Consumed, ErrLease, func(j *job.Job, t time.Time) (job.Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		if !r.Transient || q.lastAttempt(j) {
			j.Conclude(t, r)
			return job.Conclude, nil
		}
		wait := q.info().RetryFailed(j.Attempts)
		if r.RetryIn != nil {
			wait = *r.RetryIn
		}
		j.Retry(t, q.retryAt(wait), r.Message)
		return job.Requeue, nil
	})
}

// Return gives a job back without an outcome: it is pending again at once,
// however often it was handed out, and keeps the message until it is taken. The
// error is [ErrLease] as for Conclude.
func (q *Queue) Return(ctx context.Context, id job.ID, token, message string) (job.Job, error) {
	message, err := job.CleanText(message)
	if err != nil {
		return job.Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, job.Consumed, ErrLease, func(j *job.Job, t time.Time) (job.Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		j.GoBack(t)
		j.Message = message
		return job.Requeue, nil
	})
}

// Abort takes a job out of work: a pending one is Deleted, the lease of a
// consumed one is revoked; the outcome of both is Aborted. Of any other job
// the error is [job.ErrConflict]. The consumer may still hand in results for
// [job.LateResults].
func (q *Queue) Abort(ctx context.Context, id job.ID, why string) (job.Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return job.Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, 0, nil, func(j *job.Job, t time.Time) (job.Kind, error) {
		kind := job.Conclude
		switch {
		case j.Status == job.Pending:
			kind = job.Delete
			j.Delete(t)
		case j.Status != job.Consumed || j.Lease.Ends.IsZero():
			return 0, fmt.Errorf("%w: %v is %v and nobody works on it", job.ErrConflict, j.ID, j.Status)
		}
		j.Abort(t, why)
		return kind, nil
	})
}

// AbortAttempt is [Queue.Abort] of a job in work since the given instant. If
// the work has ended meanwhile, or began anew, the error is [job.ErrConflict].
func (q *Queue) AbortAttempt(ctx context.Context, id job.ID, since time.Time, why string) (job.Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return job.Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, job.Consumed, job.ErrConflict, func(j *job.Job, t time.Time) (job.Kind, error) {
		if j.Status != job.Consumed || j.Lease.Ends.IsZero() || !j.Consumed.Equal(since) {
			return 0, fmt.Errorf("%w: nobody works on %v since %s", job.ErrConflict, j.ID, job.FormatTime(since))
		}
		j.Abort(t, why)
		return job.Conclude, nil
	})
}

// leased returns [ErrLease] unless the token is the one of the job's lease.
func (q *Queue) leased(j *job.Job, token string) error {
	if j.Status != job.Consumed || !j.Lease.Opens(token, q.svc.shared.Now()) {
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

// expire ends up to MaxTake leases and as many holds that are over at an instant in µs, and
// returns how many. Jobs of a queue with AckTimeout are completed; others are put back or
// fail, as after a transient failure.
func (q *Queue) expire(now int64) (int, error) {
	leases, err := q.end(now, func(x *index.Index) *index.Deadlines { return &x.Leases }, q.lapse)
	if err != nil {
		return leases, err
	}
	holds, err := q.end(now, func(x *index.Index) *index.Deadlines { return &x.Holds }, func(j *job.Job, _ time.Time) (job.Kind, error) {
		j.Unhold()
		return job.Release, nil
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
	q.ledger.Look(func(x *index.Index) { due = of(x).Passed(now) })
	if !due {
		return 0, nil
	}
	var ids []job.ID
	q.ledger.Note(func(x *index.Index) {
		of(x).Due(now, func(id job.ID) bool {
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
		q.assist(len(jobs))
	}
	return len(jobs), err
}

// lapse ends an attempt without a report.
func (q *Queue) lapse(j *job.Job, t time.Time) (job.Kind, error) {
	if q.info().Acknowledge == job.AckTimeout {
		j.Conclude(t, job.Conclusion{Outcome: job.Completed, Message: "no report"})
		return job.Conclude, nil
	}
	if q.lastAttempt(j) {
		j.Conclude(t, job.Conclusion{Outcome: job.Failed, Message: "lease expired, no attempts left", Transient: true})
		return job.Conclude, nil
	}
	j.Retry(t, q.retryAt(q.info().RetryLapsed(j.Attempts)), "")
	return job.Requeue, nil
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
func (q *Queue) lastAttempt(j *job.Job) bool {
	most := q.info().MaxAttempts
	return most > 0 && j.Attempts >= most
}

// findLeases loads the leases marked in the index, and the keys of consumers, from their
// job files.
func (q *Queue) findLeases() error {
	var ids []job.ID
	q.ledger.Look(func(x *index.Index) { ids = x.Leased() })
	for _, id := range ids {
		var version job.Seq
		q.ledger.Look(func(x *index.Index) { version = x.Version(id) })
		j, err := q.content.Job(id)
		if errors.Is(err, content.ErrUnread) { // some end is better than a home that stays shut
			q.svc.report(q.dir.Path(job.Consumed.String(), id.String()), err.Error()+"; its lease ends in "+home.DefaultLease.String())
			j.Lease.Ends = q.leaseEnd(home.DefaultLease)
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
		q.takes.follow(&job.Job{}, &j)
	}
	return q.findKeys()
}

// findKeys loads the keys of consumers in force without a lease.
func (q *Queue) findKeys() error {
	var ids []job.ID
	q.ledger.Look(func(x *index.Index) { ids = x.Keyed(q.svc.now() - keyRemembered.Microseconds()) })
	for _, id := range ids {
		j, err := q.content.Job(id)
		if errors.Is(err, content.ErrUnread) {
			continue
		}
		if err != nil {
			return err
		}
		q.takes.follow(&job.Job{}, &j)
	}
	return nil
}

// MaxResults is how many results a job may have.
const MaxResults = content.MaxResults

// maxResultType is the most octets of the media type of a result: all of a
// job's results stand in its job file.
const maxResultType = 255

// A ResultUpload is a result on its way: written, then committed or discarded.
// It is for one goroutine.
type ResultUpload struct {
	payload
	q      *Queue
	id     job.ID
	token  string
	result job.Result
	expect []digest.Value
	at     string // the file with the contents
	done   bool
}

// NewResult begins a result of a job under the caller's lease, or for some time after its
// abort. It must have the digests in expect. Errors are ErrLease, ErrResultExists,
// job.ErrBadName or job.ErrTooBig; call Commit or Discard in the end.
func (q *Queue) NewResult(ctx context.Context, id job.ID, token, name, mediaType string, expect []digest.Value) (*ResultUpload, error) {
	if err := q.changeable(ctx); err != nil {
		return nil, err
	}
	if err := job.CheckResultName(name); err != nil {
		return nil, err
	}
	if mediaType = job.CleanLabel(mediaType); len(mediaType) > maxResultType {
		return nil, fmt.Errorf("media type of result %s: %w: more than %d octets", name, job.ErrTooBig, maxResultType)
	}
	d := &ResultUpload{q: q, id: id, token: token, result: job.Result{Name: name, MediaType: mediaType}, expect: expect}
	for _, e := range expect {
		if !e.Type.Valid() {
			return nil, fmt.Errorf("%w: digest of result %s is of no known kind", job.ErrBadName, name)
		}
	}
	if err := q.svc.shared.Gate.Usable(); err != nil {
		return nil, err
	}
	j, err := q.content.Job(id)
	if err != nil {
		return nil, err
	}
	// Asked again when it is committed; this spares a long upload for nothing.
	if err := d.allowed(&j); err != nil {
		return nil, err
	}
	most := min(content.SmallResult, q.svc.shared.Inline)
	d.begin(&budget{inline: most, free: most, spool: q.svc.spool})
	d.hash(further(nil, expect))
	return d, nil
}

// allowed tells whether the job may have the result.
func (d *ResultUpload) allowed(j *job.Job) error {
	if !j.MayAdd(d.token, d.q.svc.shared.Now()) {
		return fmt.Errorf("%v: %w", j.ID, ErrLease)
	}
	if _, ok := j.Result(d.result.Name); ok {
		return fmt.Errorf("%v: %s: %w", j.ID, d.result.Name, ErrResultExists)
	}
	if len(j.Results) >= MaxResults {
		return fmt.Errorf("%v: %w: more than %d results", j.ID, job.ErrTooBig, MaxResults)
	}
	return nil
}

// Commit adds the result to the job; the job keeps its lease. It is on stable
// storage when Commit returns. Errors are those of NewResult, digest.ErrMismatch,
// ledger.ErrNoSpace, ledger.ErrFailed, ledger.ErrClosed, or that of ctx; then there is no result.
func (d *ResultUpload) Commit(ctx context.Context) (job.Result, error) {
	if d.done {
		return job.Result{}, errOver
	}
	err := d.commit(ctx)
	d.discard(err != nil)
	if err != nil {
		return job.Result{}, err
	}
	return d.result, nil
}

func (d *ResultUpload) commit(ctx context.Context) error {
	q := d.q
	if _, err := d.digests(further(nil, d.expect), d.expect); err != nil {
		return err
	}
	d.result.Size, d.result.SHA256 = d.size, d.sha256()
	small, err := d.place(ctx)
	if err != nil {
		return ledger.StorageError(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := q.svc.makeFit(1, d.result.Size); err != nil {
		return err
	}
	if _, err := q.ledger.Claim(ctx, d.id, 0); err != nil {
		return err
	}
	from, err := q.content.Job(d.id)
	if err == nil {
		// With the record the result is there; its file gets its name like
		// other files behind the journal.
		err = q.commit(func(b *ledger.Batch) error {
			j := from
			if err := d.allowed(&j); err != nil {
				return err
			}
			seq, us := b.Next()
			j.Seq = seq
			j.Results = append(slices.Clip(j.Results), d.result)
			r := b.Job(&j, job.Conclude, from.Status, us)
			r.Flags |= record.Result
			r.Temp, r.Result = d.at+"/"+d.result.Name, small
			return nil
		})
	}
	if err != nil {
		q.ledger.Release(d.id)
		return err
	}
	q.assist(1)
	return nil
}

// place gives the result its file, for a record to name. The record has the contents of a
// small one, and these are returned: then the file needs no sync, since a replay writes it
// again. A large one is on stable storage when place returns.
func (d *ResultUpload) place(ctx context.Context) (small []byte, err error) {
	q := d.q
	if d.at = d.temp(); d.at == "" {
		small = append([]byte{}, d.buf...)
		d.at, err = q.svc.dirs.temp.Stage(d.result.Name, small)
		return small, err
	}
	if err := d.file.Sync(); err != nil {
		return nil, err
	}
	if err := q.svc.dirs.temp.Sync(); err != nil {
		return nil, err
	}
	d.at, err = q.svc.stored.Keep(ctx, d.at, d.result.SHA256)
	d.file.Named(d.at)
	return nil, err
}

// Discard lets go of the upload. After Commit it does nothing.
func (d *ResultUpload) Discard() { d.discard(true) }

func (d *ResultUpload) discard(remove bool) {
	if d.done {
		return
	}
	d.done = true
	at := cmp.Or(d.at, d.temp())
	d.close()
	if remove {
		d.q.svc.dropTemp(at)
	}
}
