package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"syscall"
	"time"

	"cutie/cmd/cutie/daemon"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// A target is where the queues are: a daemon, by a [rest.Client], or a home
// that no daemon has open. A verb does not know which. Errors are found by
// [errors.Is] to be those of queuefs. Queues go by identifier, cleaned or not,
// or by name; jobs by identifier.
type target interface {
	// Submit stores all uploads, or none of them (Cutie 0.3, 5.5).
	Submit(ctx context.Context, queue string, uploads ...rest.Upload) (jobs []string, err error)
	// Next consumes the head of the queue (5.6). It waits for a job no longer
	// than wait says, and perhaps not at all.
	Next(ctx context.Context, queue string, wait time.Duration) (*rest.Delivery, error)
	// Peek reads a job and leaves it as it is (5.7); "" is the head.
	Peek(ctx context.Context, queue, job string) (*rest.Delivery, error)
	// NextMessage and PeekMessage are these with the whole answer as it is sent.
	NextMessage(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) (*rest.Delivery, error)
	PeekMessage(ctx context.Context, queue, job string) (*rest.Delivery, error)
	// Delete takes a pending job out of its queue (5.8).
	Delete(ctx context.Context, queue, job string) (queuefs.Job, error)
	// Requeue makes a consumed or deleted job pending again.
	Requeue(ctx context.Context, queue, job string) (queuefs.Job, error)
	// State is a state as it is sent (5.2 to 5.4): of a job, of a queue if job
	// is "", of the service if queue is "" too.
	State(ctx context.Context, form state.Form, queue, job string, page ...rest.Page) ([]byte, error)
	Service(ctx context.Context) (state.Service, error)
	Queue(ctx context.Context, queue string, page rest.Page) (state.Queue, error)
	Job(ctx context.Context, queue, job string) (queuefs.Job, error)
	// Jobs gives the jobs of a page, whose limit may be any, in FIFO order;
	// JobStates is their states as they are sent.
	Jobs(ctx context.Context, queue string, page rest.Page) iter.Seq2[queuefs.Job, error]
	JobStates(ctx context.Context, form state.Form, queue string, page rest.Page) (states io.ReadCloser, next queuefs.JobID, err error)
	CreateQueue(ctx context.Context, info queuefs.QueueInfo) (state.Queue, error)

	// The rest are additions. Hold makes consumers pass over a pending job,
	// Release ends that.
	Hold(ctx context.Context, queue, job, why string) (queuefs.Job, error)
	Release(ctx context.Context, queue, job string) (queuefs.Job, error)
	// RequeueEnd is Requeue as a new job at the end.
	RequeueEnd(ctx context.Context, queue, job string) (queuefs.Job, error)
	// Abort takes a job out of work, whoever has it.
	Abort(ctx context.Context, queue, job, why string) (queuefs.Job, error)
	// Bulk does o with the jobs that are selected, perhaps not with all at once.
	Bulk(ctx context.Context, queue string, o rest.Operation, s rest.Selection) (state.Changes, error)
	// Take is Next with a lease.
	Take(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) iter.Seq2[*rest.Delivery, error]
	// Extend, Conclude and Return are for the consumer that has the lease which
	// token is of.
	Extend(ctx context.Context, queue, job, token string, d time.Duration) (queuefs.Job, error)
	Conclude(ctx context.Context, queue, job, token string, r queuefs.Conclusion) (queuefs.Job, error)
	Return(ctx context.Context, queue, job, token, message string) (queuefs.Job, error)
	PutResult(ctx context.Context, queue, job, token string, u rest.Upload) error
	Result(ctx context.Context, queue, job, name string) (*rest.Delivery, error)
	SetQueue(ctx context.Context, queue string, settings rest.Settings) (state.Queue, error)
	RemoveQueue(ctx context.Context, queue string) error
	// Cull removes processed jobs, perhaps not all at once.
	Cull(ctx context.Context, o queuefs.CullOptions) (state.Changes, error)
	// SubmitManifest submits what a batch manifest names; StartManifest does not
	// wait for it, and Batch tells how far it is.
	SubmitManifest(ctx context.Context, queue string, u rest.Upload) (jobs []string, err error)
	StartManifest(ctx context.Context, queue string, u rest.Upload) (batch string, err error)
	Batch(ctx context.Context, queue, batch string) (state.Batch, error)

	Close() error
}

// lockPatience is how long to wait for a home that another command has open;
// commands hold it for moments.
const lockPatience = 10 * time.Second

// target finds the queues: a daemon that was named, a daemon that runs on the
// home, or the home itself.
func (c *call) target(ctx context.Context) (target, error) {
	if c.url != "" {
		base, err := cleanBase(c.url)
		if err != nil {
			return nil, err
		}
		c.tell("asks %s", base)
		return newRemote(base, nil, c.traced), nil
	}
	for start := time.Now(); ; {
		running, err := askDaemon(ctx, c.home, c.traced)
		if err != nil {
			return nil, err
		}
		if running != nil {
			c.tell("asks the daemon of %s", c.home)
			return running, nil
		}
		home, err := openLocal(ctx, c.home, c.warnf, c.traced)
		if err == nil {
			c.tell("opens %s", c.home)
			return c.recorded(home), nil
		}
		var locked *queuefs.LockedError
		if !errors.As(err, &locked) || time.Since(start) > lockPatience {
			return nil, homeHint(c.home, err)
		}
		// Another command has the home open, or a daemon that is starting.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tell says once who is asked, to those who want to know.
func (c *call) tell(format, who string) {
	if !c.told {
		c.sayf(format, who)
	}
	c.told = true
}

// askDaemon returns the daemon of a home, or nil if none answers there.
func askDaemon(ctx context.Context, home string, watch func(http.RoundTripper) http.RoundTripper) (*remote, error) {
	socket, err := daemon.OpenSocket(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	conn, err := socket.Dial(ctx)
	if err != nil {
		// A socket nobody listens on is what a killed daemon leaves.
		return nil, errors.Join(socket.Close(), ignore(err, fs.ErrNotExist, syscall.ECONNREFUSED))
	}
	conn.Close()
	return newRemote("http://localhost/", socket, watch), nil
}

// queueArg is the queue that the first argument names. What can name none,
// and would not survive in a URL, is not found.
func (c *call) queueArg() (string, error) {
	switch q := c.args[0]; q {
	case "", ".", "..":
		return q, about(q, queuefs.ErrNoQueue)
	default:
		return q, nil
	}
}

// ignore returns err unless it is one of these.
func ignore(err error, these ...error) error {
	for _, e := range these {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
