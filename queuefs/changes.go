package queuefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/transition"
)

// Changes of jobs in the queue; see package transition.
type (
	Take         = transition.Take
	Taken        = transition.Taken
	ResultUpload = transition.ResultUpload
	Description  = transition.Description
)

// Limits of package transition.
const (
	MaxTake    = transition.MaxTake
	MaxResults = transition.MaxResults
)

// Take is as [transition.Desk.Take].
func (q *Queue) Take(ctx context.Context, t Take) ([]Taken, error) { return q.desk.Take(ctx, t) }

// TakeWait is as [transition.Desk.TakeWait]. At a standby it waits for nothing.
func (q *Queue) TakeWait(ctx context.Context, t Take) ([]Taken, error) {
	if q.svc.Standby() {
		return nil, ErrStandby
	}
	return q.desk.TakeWait(ctx, t)
}

// Given is as [transition.Desk.Given].
func (q *Queue) Given(taken []Taken) { q.desk.Given(taken) }

// Rest is as [transition.Desk.Rest].
func (q *Queue) Rest(ctx context.Context, id JobID, why error) error {
	return q.desk.Rest(ctx, id, why)
}

// Next is as [transition.Desk.Next].
func (q *Queue) Next(ctx context.Context, by string) (Job, error) { return q.desk.Next(ctx, by) }

// NextN is as [transition.Desk.NextN].
func (q *Queue) NextN(ctx context.Context, by string, max int) ([]Job, error) {
	return q.desk.NextN(ctx, by, max)
}

// NextWait is as [transition.Desk.NextWait].
func (q *Queue) NextWait(ctx context.Context, by string, max int) ([]Job, error) {
	return q.desk.NextWait(ctx, by, max)
}

// Delete is as [transition.Desk.Delete].
func (q *Queue) Delete(ctx context.Context, id JobID) (Job, error) { return q.desk.Delete(ctx, id) }

// Requeue is as [transition.Desk.Requeue].
func (q *Queue) Requeue(ctx context.Context, id JobID) (Job, error) { return q.desk.Requeue(ctx, id) }

// RequeueIdle is as [transition.Desk.RequeueIdle].
func (q *Queue) RequeueIdle(ctx context.Context, id JobID) (Job, error) {
	return q.desk.RequeueIdle(ctx, id)
}

// RequeueAt is as [transition.Desk.RequeueAt].
func (q *Queue) RequeueAt(ctx context.Context, id JobID, at Seq) (Job, error) {
	return q.desk.RequeueAt(ctx, id, at)
}

// RequeueEnd is as [submission.Intake.RequeueEnd].
func (q *Queue) RequeueEnd(ctx context.Context, id JobID) (Job, error) {
	return q.intake.RequeueEnd(ctx, id)
}

// Hold is as [transition.Desk.Hold].
func (q *Queue) Hold(ctx context.Context, id JobID, why string) (Job, error) {
	return q.desk.Hold(ctx, id, why)
}

// HoldUntil is as [transition.Desk.HoldUntil].
func (q *Queue) HoldUntil(ctx context.Context, id JobID, why string, until time.Time) (Job, error) {
	return q.desk.HoldUntil(ctx, id, why, until)
}

// HoldAt is as [transition.Desk.HoldAt].
func (q *Queue) HoldAt(ctx context.Context, id JobID, at Seq, why string) (Job, error) {
	return q.desk.HoldAt(ctx, id, at, why)
}

// Release is as [transition.Desk.Release].
func (q *Queue) Release(ctx context.Context, id JobID) (Job, error) { return q.desk.Release(ctx, id) }

// Amend is as [transition.Desk.Amend].
func (q *Queue) Amend(ctx context.Context, id JobID, edit func(*Job) error) (Job, error) {
	return q.desk.Amend(ctx, id, edit)
}

// Describe is as [transition.Desk.Describe].
func (q *Queue) Describe(ctx context.Context, id JobID, d Description) (Job, error) {
	return q.desk.Describe(ctx, id, d)
}

// Extend is as [transition.Desk.Extend].
func (q *Queue) Extend(ctx context.Context, id JobID, token string, d time.Duration) (Job, error) {
	return q.desk.Extend(ctx, id, token, d)
}

// Conclude is as [transition.Desk.Conclude].
func (q *Queue) Conclude(ctx context.Context, id JobID, token string, r Conclusion) (Job, error) {
	return q.desk.Conclude(ctx, id, token, r)
}

// Return is as [transition.Desk.Return].
func (q *Queue) Return(ctx context.Context, id JobID, token, message string) (Job, error) {
	return q.desk.Return(ctx, id, token, message)
}

// Abort is as [transition.Desk.Abort].
func (q *Queue) Abort(ctx context.Context, id JobID, why string) (Job, error) {
	return q.desk.Abort(ctx, id, why)
}

// AbortAttempt is as [transition.Desk.AbortAttempt].
func (q *Queue) AbortAttempt(ctx context.Context, id JobID, since time.Time, why string) (Job, error) {
	return q.desk.AbortAttempt(ctx, id, since, why)
}

// NewResult is as [transition.Desk.NewResult].
func (q *Queue) NewResult(ctx context.Context, id JobID, token, name, mediaType string, expect []digest.Value) (*ResultUpload, error) {
	return q.desk.NewResult(ctx, id, token, name, mediaType, expect)
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
			n, err := q.desk.Expire(s.now())
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
