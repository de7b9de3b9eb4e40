package client

import (
	"context"
	"errors"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
)

// Work says on which jobs [Client.Work] works, and how.
type Work struct {
	Queue string
	// Lease is the time after which others get the job if this process dies; 0: a
	// minute. It is extended while the work goes on.
	Lease time.Duration
	// Failed gets the error of each job that was not completed; nil if nobody wants to
	// know. A Delivery of nil means that no job could be taken; the loop tries again.
	Failed func(*Delivery, error)
}

const (
	workLease = time.Minute
	workWait  = 30 * time.Second // of one request, for a job
)

// Transient makes of an error one that [Client.Work] reports as a failure for now:
// another attempt may go better, and the queue makes it after its delay, until its
// attempts are used up.
func Transient(err error) error { return &transientError{err} }

type transientError struct{ error }

func (e *transientError) Unwrap() error { return e.error }

// Work takes one job after another with a lease, calls do for each, and reports the
// outcome: completed if the error of do is nil, failed with its message if not. With
// [Transient] another attempt follows. It closes the Body.
//
// The context of do ends when the lease is lost; then another consumer may have the
// job, and nothing is reported. It ends with ctx, too: if do returns an error then, the
// job is given back. do may store results with [Client.PutResult].
//
// Work returns when ctx ends, with its error, or when the service refuses. For several
// jobs at a time call it in several goroutines.
func (c *Client) Work(ctx context.Context, w Work, do func(ctx context.Context, d *Delivery) error) error {
	if w.Lease == 0 {
		w.Lease = workLease
	}
	if w.Failed == nil {
		w.Failed = func(*Delivery, error) {}
	}
	for ctx.Err() == nil {
		d, err := c.NextFor(ctx, w.Queue, queuefs.Take{Lease: w.Lease}, workWait)
		switch {
		case err == nil:
			if err := c.workOn(ctx, &w, d, do); err != nil {
				w.Failed(d, err)
			}
		case ctx.Err() != nil, errors.Is(err, queuefs.ErrEmpty):
		case !Temporary(err):
			return err
		default:
			w.Failed(nil, err)
			sleep(ctx, pauseAfter(err))
		}
	}
	return ctx.Err()
}

// workOn works on one job and reports its outcome. The error is why it was not
// completed.
func (c *Client) workOn(ctx context.Context, w *Work, d *Delivery, do func(context.Context, *Delivery) error) error {
	defer d.Body.Close()
	// The lease is kept, and the outcome reported, after ctx has ended too.
	live := context.WithoutCancel(ctx)
	held, stop := c.KeepLease(live, d, w.Lease)
	run, cancel := context.WithCancelCause(held)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	failure := do(run, d)
	// From here an extension could only be refused because of the report.
	if err := stop(); err != nil {
		return errors.Join(err, failure)
	}
	live, done := context.WithTimeout(live, w.Lease)
	defer done()
	report := func() error {
		_, err := c.Conclude(live, d.Queue, d.Job, d.Lease, conclusion(failure))
		return err
	}
	if failure != nil && ctx.Err() != nil {
		report = func() error {
			_, err := c.Return(live, d.Queue, d.Job, d.Lease, "the worker was ended")
			return err
		}
	}
	return errors.Join(failure, Retry(live, report, queuefs.ErrLease))
}

// conclusion is the report of what do has returned.
func conclusion(failure error) queuefs.Conclusion {
	if failure == nil {
		return queuefs.Conclusion{Outcome: queuefs.Completed}
	}
	t := (*transientError)(nil)
	text := failure.Error()
	text = text[:min(len(text), job.MaxMessage/3)] // other octets than text take three
	return queuefs.Conclusion{Outcome: queuefs.Failed, Message: text, Transient: errors.As(failure, &t)}
}
