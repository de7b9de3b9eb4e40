package queuefs

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMessage is the most octets of a message.
const MaxMessage = 16 << 10

// A Conclusion is the report of a consumer on its job.
type Conclusion struct {
	Outcome   Outcome // Completed or Failed
	Message   string  // text, at most MaxMessage octets
	Transient bool    // another attempt may go better; only with Failed
}

// Conclude ends the lease of a job with the outcome reported by its consumer.
// The error is [ErrLease] if token is not, or no longer, the lease's: late and
// second reports change nothing.
func (q *Queue) Conclude(ctx context.Context, id JobID, token string, r Conclusion) (Job, error) {
	if r.Outcome != Completed && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: a consumer reports %v or %v, not %v", ErrBadName, Completed, Failed, r.Outcome)
	}
	if r.Transient && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: what was completed has no transient error", ErrBadName)
	}
	var err error
	if r.Message, err = cleanText(r.Message); err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		j.conclude(t, r)
		return Conclude, nil
	})
}

// Return gives a job back without an outcome: it is pending again at once,
// however often it was handed out, and keeps the message until it is taken. The
// error is [ErrLease] as for Conclude.
func (q *Queue) Return(ctx context.Context, id JobID, token, message string) (Job, error) {
	message, err := cleanText(message)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		j.goBack(t)
		j.Message = message
		return Requeue, nil
	})
}

// Abort takes a job out of work: a pending one is Deleted, the lease of a
// consumed one is revoked; the outcome of both is Aborted. Of any other job
// the error is [ErrConflict].
func (q *Queue) Abort(ctx context.Context, id JobID, why string) (Job, error) {
	why, err := cleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, 0, nil, func(j *Job, t time.Time) (Kind, error) {
		kind := Conclude
		switch {
		case j.Status == Pending:
			kind = Delete
			j.enter(Deleted)
			j.Deleted = t
		case j.Status != Consumed || j.Lease.Ends.IsZero():
			return 0, fmt.Errorf("%w: %v is %v and nobody works on it", ErrConflict, j.ID, j.Status)
		}
		j.conclude(t, Conclusion{Outcome: Aborted, Message: why})
		return kind, nil
	})
}

// conclude ends the work on the job.
func (j *Job) conclude(t time.Time, r Conclusion) {
	j.Lease = Lease{}
	j.Outcome, j.Finished, j.Message, j.Transient = r.Outcome, t, r.Message, r.Transient
}

// alter makes one event of one job in st, or in any status if st is 0; for
// another the error is refusal. edit is as for change.
func (q *Queue) alter(ctx context.Context, id JobID, st Status, refusal error, edit func(j *Job, t time.Time) (Kind, error)) (Job, error) {
	if err := ctx.Err(); err != nil {
		return Job{}, err
	}
	// Asked before the job is taken: while a pending one is, others would pass
	// it for nothing.
	if is, _ := q.Status(id); is != 0 && st != 0 && is != st {
		return Job{}, misplaced(id, is, refusal)
	}
	if _, err := q.take(ctx, id, 0); err != nil {
		return Job{}, err
	}
	jobs, err := q.change([]JobID{id}, edit)
	if err != nil {
		return Job{}, err
	}
	q.svc.assist(q, 1)
	return jobs[0], nil
}

// misplaced refuses a job for where it stands, and names the way out if there is
// one for all.
func misplaced(id JobID, is Status, refusal error) error {
	err := fmt.Errorf("%v: %w: it is %v", id, refusal, is)
	if refusal == ErrNotPending {
		err = fmt.Errorf("%w; requeue puts it back", err)
	}
	return err
}

// cleanText makes a message fit for every document. Lines stay lines.
func cleanText(s string) (string, error) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxMessage {
		return "", fmt.Errorf("%w: more than %d octets", ErrTooBig, MaxMessage)
	}
	return s, nil
}
