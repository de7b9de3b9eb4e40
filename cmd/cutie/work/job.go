package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// exitTransient is the exit code of a command for a later try (EX_TEMPFAIL of
// sysexits.h).
const exitTransient = 75

// maxUnread is the attempt at which a job with an unreadable payload fails: until
// then it blocks the jobs after it.
const maxUnread = 5

// A loadError is the reason why a job was given back before its command ran.
type loadError struct{ err error }

func (e *loadError) Error() string { return e.err.Error() }
func (e *loadError) Unwrap() error { return e.err }

// do works on one job and reports its outcome. An error ends the worker; the
// failure of this job alone is a warning. wait is the pause after giving the job
// back, and backoff the pause before it.
func (w *Worker) do(ctx context.Context, d *client.Delivery, backoff time.Duration) (wait time.Duration, err error) {
	w.Say("%s: %s: taken", w.Queue, d.Job)
	end, what, err := w.attempt(ctx, d)
	w.tally.add(end)
	start, load := (*startError)(nil), (*loadError)(nil)
	switch {
	case errors.As(err, &start):
		return 0, err
	case errors.As(err, &load):
		wait = min(max(2*backoff, workPause), maxBackoff)
		w.Warn("%s: %s: %v; waits %v", w.Queue, d.Job, err, wait)
	case errors.Is(err, queuefs.ErrLease):
		w.Warn("%s: %s: the lease is gone, the command was ended%s", w.Queue, d.Job, what)
	case err != nil:
		w.Warn("%s: %s: %v", w.Queue, d.Job, err)
	case end == failed || end == retried:
		w.Warn("%s: %s: %s", w.Queue, d.Job, what)
	default:
		w.Say("%s: %s: %s", w.Queue, d.Job, what)
	}
	return wait, nil
}

// attempt runs the command, and reports and returns the outcome, in words too.
func (w *Worker) attempt(ctx context.Context, d *client.Delivery) (end ending, what string, err error) {
	// Reports are sent even when this program is interrupted.
	held, stop := w.Client.KeepLease(context.WithoutCancel(ctx), d, w.Lease)
	defer stop()

	dir, err := os.MkdirTemp("", "cutie-work-")
	if err != nil {
		d.Body.Close()
		return givenBack, "", &loadError{errors.Join(err, w.giveBack(held, d, "no space for its files"))}
	}
	defer os.RemoveAll(dir)
	unread, err := unpack(dir, d)
	switch {
	case ctx.Err() != nil && (unread != nil || err != nil):
		return givenBack, "given back", w.giveBack(held, d, "the worker was ended")
	case unread != nil && d.Attempt >= maxUnread:
		unread = fmt.Errorf("the payload could not be read: %w", unread)
		_, err := w.conclude(held, d, queuefs.Conclusion{Outcome: queuefs.Failed, Message: unread.Error()})
		return failed, "", errors.Join(unread, err)
	case unread != nil:
		return givenBack, "", &loadError{errors.Join(unread, w.giveBack(held, d, "the payload could not be read"))}
	case err != nil:
		return givenBack, "", &loadError{errors.Join(err, w.giveBack(held, d, "no space for its files"))}
	}
	message, runErr := w.command(ctx, held, dir, d)
	if cause := context.Cause(held); cause != nil {
		return lost, w.putLate(ctx, dir, d), cause
	}
	if ctx.Err() != nil {
		return givenBack, "given back", w.giveBack(held, d, "the worker was ended")
	}
	if start := (*startError)(nil); errors.As(runErr, &start) {
		return givenBack, "", errors.Join(runErr, w.giveBack(held, d, runErr.Error()))
	}
	if runErr == nil {
		runErr = w.putResults(ctx, held, dir, d)
		message = ""
	} else if err := w.putDetail(ctx, held, dir, d); err != nil {
		runErr, message = fmt.Errorf("%w; its detail: %w", runErr, err), ""
	}
	if cause := context.Cause(held); cause != nil {
		return lost, w.putLate(ctx, dir, d), cause
	}
	if errors.Is(runErr, errUntaken) {
		return givenBack, "given back, for no result was taken", w.giveBack(held, d, runErr.Error())
	}
	if errors.Is(runErr, queuefs.ErrLease) {
		return lost, w.putLate(ctx, dir, d), runErr
	}
	c := queuefs.Conclusion{Outcome: queuefs.Completed}
	if runErr != nil {
		c = failure(runErr, message)
	}
	after, err := w.conclude(held, d, c)
	if err != nil {
		return lost, "", err
	}
	end, what = ended(&c, &after)
	return end, what, nil
}

// failure is the report of a command that failed.
func failure(runErr error, message string) queuefs.Conclusion {
	var exit *exec.ExitError
	c := queuefs.Conclusion{Outcome: queuefs.Failed, Message: message}
	c.Transient = errors.As(runErr, &exit) && exit.ExitCode() == exitTransient
	if strings.TrimSpace(message) == "" {
		c.Message = runErr.Error()
	}
	return c
}

// ended says how an attempt has ended, by its report and the job after it. That is zero
// if the answer to the report was lost.
func ended(c *queuefs.Conclusion, after *queuefs.Job) (end ending, what string) {
	lines := strings.Split(strings.TrimSpace(c.Message), "\n")
	message := lines[len(lines)-1]
	switch {
	case c.Outcome == queuefs.Completed:
		return completed, "completed"
	case !c.Transient:
		return failed, "failed for good: " + message
	case after.ID == 0:
		return failed, "failed for now: " + message
	case after.Outcome == queuefs.Failed:
		return failed, "failed for now, no attempts are left: " + message
	case after.HeldUntil.IsZero():
		return retried, "failed for now, another attempt follows: " + message
	}
	wait := after.HeldUntil.Sub(after.Requeued).Round(time.Second)
	return retried, fmt.Sprintf("failed for now, another attempt follows in %v: %s", wait, message)
}

func (w *Worker) conclude(ctx context.Context, d *client.Delivery, c queuefs.Conclusion) (after queuefs.Job, err error) {
	err = client.Retry(ctx, func() (err error) {
		after, err = w.Client.Conclude(ctx, d.Queue, d.Job, d.Lease, c)
		return err
	}, queuefs.ErrLease)
	return after, err
}

func (w *Worker) giveBack(ctx context.Context, d *client.Delivery, why string) error {
	return client.Retry(ctx, func() error {
		_, err := w.Client.Return(ctx, d.Queue, d.Job, d.Lease, why)
		return err
	}, queuefs.ErrLease)
}
