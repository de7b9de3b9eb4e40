package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// An Error is a refused request: its HTTP status, the message of the service, and the
// time after which another try makes sense, if the service said one.
type Error = web.Error

// Temporary reports whether the same call may succeed later: the service could not be
// reached, was busy, or has failed. It is false for a refusal, such as a missing right,
// a queue that is not there, or a lease that is gone.
func Temporary(err error) bool {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests || e.After > 0
	}
	return err != nil && !errors.Is(err, queuefs.ErrNoQueue) && !errors.Is(err, queuefs.ErrBadName) && !errors.Is(err, context.Canceled)
}

// Retry calls do until its error is nil or not [Temporary], or until ctx ends. From the
// second try on, the error done means success: an earlier try was heard, and only its
// answer was lost. done may be nil.
//
// Submissions and takes need a key to be sent again, see [Upload] and [queuefs.Take].
func Retry(ctx context.Context, do func() error, done error) error {
	for try := 0; ; try++ {
		err := do()
		switch {
		case err == nil, try > 0 && done != nil && errors.Is(err, done):
			return nil
		case ctx.Err() != nil:
			return cmp.Or(context.Cause(ctx), err)
		case !Temporary(err):
			return err
		}
		sleep(ctx, pauseAfter(err))
	}
}

const (
	retryPause = time.Second // before another try, if the service says no other time
	maxAfter   = time.Minute // of a Retry-After that is obeyed
)

// pauseAfter is the time before another try.
func pauseAfter(err error) time.Duration {
	if e := (*Error)(nil); errors.As(err, &e) && e.After > 0 {
		return min(e.After, maxAfter)
	}
	return retryPause
}

// retryAfter reads the header Retry-After (RFC 9110, 10.2.3), 0 without one.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
