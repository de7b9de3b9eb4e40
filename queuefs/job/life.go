package job

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a change that the state of a job does not allow.
var (
	ErrNotPending = errors.New("job not pending")
	ErrConflict   = errors.New("job not in a state for that")
)

// Misplaced refuses a job for where it stands, and names the way out if there is one for
// all.
func Misplaced(id ID, is Status, refusal error) error {
	err := fmt.Errorf("%v: %w: it is %v", id, refusal, is)
	if refusal == ErrNotPending {
		err = fmt.Errorf("%w; requeue puts it back", err)
	}
	return err
}

// Enter moves the job to st and drops all data without a meaning there. The date of
// its last consumption stays (Cutie 0.3, 6.5).
func (j *Job) Enter(st Status) {
	j.Status = st
	if st != Pending {
		j.Unhold()
	}
	if st != Consumed {
		j.Lease, j.ConsumerKey = Lease{}, ""
	}
	if st != Deleted {
		j.Deleted = time.Time{}
	}
	if st == Pending {
		j.Consumer = ""
		j.Outcome, j.Finished, j.Transient, j.Results = 0, time.Time{}, false, nil
	}
}

// GoBack makes the job pending again.
func (j *Job) GoBack(t time.Time) {
	j.Enter(Pending)
	j.Message = ""
	j.Extra = Without(j.Extra, RequeuedAs)
	j.Requeued, j.Requeues = t, j.Requeues+1
}

// Delete takes the job out of the queue.
func (j *Job) Delete(t time.Time) {
	j.Enter(Deleted)
	j.Deleted = t
}

// StartOver makes the job pending again; a failed one has all its attempts again.
func (j *Job) StartOver(t time.Time) {
	if j.Outcome == Failed {
		j.Attempts = 0
	}
	j.GoBack(t)
}

// Retry makes the job pending again for another attempt, on hold until a time unless
// that is zero.
func (j *Job) Retry(t, until time.Time, message string) {
	j.GoBack(t)
	j.Message = message
	if !until.IsZero() {
		j.Hold(t, ForRetry, until)
	}
}

// ForRetry is the reason for the hold of a job between two attempts.
const ForRetry = "waits for another attempt"

// Hold lets consumers pass over the job, until a time unless that is zero. A job on
// hold keeps its date; its reason becomes why, unless why is empty. Hold returns false
// if nothing has changed.
func (j *Job) Hold(t time.Time, why string, until time.Time) bool {
	was := *j
	if j.Held.IsZero() {
		j.Held = t
	}
	if why != "" {
		j.HeldFor = why
	}
	j.HeldUntil = until
	return j.Held != was.Held || j.HeldFor != was.HeldFor || !j.HeldUntil.Equal(was.HeldUntil)
}

// Unhold ends the hold of the job. It returns false if there was none.
func (j *Job) Unhold() bool {
	held := !j.Held.IsZero()
	j.Held, j.HeldFor, j.HeldUntil = time.Time{}, "", time.Time{}
	return held
}

// A Conclusion is the report of a consumer on its job.
type Conclusion struct {
	Outcome   Outcome // Completed or Failed
	Message   string  // text, at most MaxMessage octets
	Transient bool    // another attempt may go better; only with Failed
	// RetryIn is the time until another attempt, at most home.MaxLease; nil leaves
	// it to the queue. Only with Transient.
	RetryIn *time.Duration
}

// Conclude ends the work on the job.
func (j *Job) Conclude(t time.Time, r Conclusion) {
	j.Lease, j.ConsumerKey = Lease{}, ""
	j.Outcome, j.Finished, j.Message, j.Transient = r.Outcome, t, r.Message, r.Transient
}

// LateResults is how long after an abort the consumer may still hand in the results
// that it has.
const LateResults = 15 * time.Minute

// Abort ends the work on the job without its consumer. The key of a lease stays, for
// late results (UWS 1.0, 2.1.4).
func (j *Job) Abort(t time.Time, why string) {
	key := j.Lease.Key
	j.Conclude(t, Conclusion{Outcome: Aborted, Message: why})
	j.Lease.Key = key
}

// MayAdd reports whether the token lets its holder add results to the job.
func (j *Job) MayAdd(token string, now time.Time) bool {
	if j.Outcome == Aborted && now.Before(j.Finished.Add(LateResults)) {
		return j.Status == Consumed && j.Lease.Key != "" && j.Lease.isKeyOf(token)
	}
	return j.Status == Consumed && j.Lease.Opens(token, now)
}

// Again returns a new job at the end of the queue with the payload of this one.
func (j *Job) Again(id ID, seq Seq, t time.Time) Job {
	return Job{ID: id, Queue: j.Queue, Status: Pending, Seq: seq, Filename: j.Filename, MediaType: j.MediaType, Submitter: j.Submitter,
		Sidecar: j.Sidecar, EmptySidecar: j.EmptySidecar, Size: j.Size, Digests: j.Digests, Batch: j.Batch, Owner: j.Owner, Submitted: t, Requeued: t, Requeues: j.Requeues + 1,
		Destruction: j.Destruction, Extra: With(j.Extra, RequeuedFrom, j.ID.String())}
}

// GiveWay names the successor of the job, to which its Destruction goes.
func (j *Job) GiveWay(to ID) {
	j.Destruction = time.Time{}
	j.Extra = With(j.Extra, RequeuedAs, to.String())
}
