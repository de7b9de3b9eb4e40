// Package client calls the methods of a service from Go, see package rest.
//
//	c := client.New("http://127.0.0.1:8080/", nil)
//	report, err := client.File("report.pdf")
//	ids, err := c.Submit(ctx, "jobs", report)
//
// # Submitting
//
// [Client.Submit] returns when the jobs are on stable storage, all of them or none.
// Payloads are streamed. After an error nobody knows whether the jobs are stored, unless
// each [Upload] has a Key: then the call may be made again, and stores nothing twice.
//
// # Working
//
// [Client.Work] is the loop of a worker: it takes jobs with leases, keeps these, and
// reports outcomes. Other loops are made of its parts: [Client.NextFor] takes a job,
// [Client.KeepLease] keeps it, [Client.PutResult] stores a result, [Client.Conclude]
// reports the outcome, and [Client.Return] gives a job back. [Client.Next] takes a job
// without a lease: it is consumed then, whatever becomes of it.
//
// # Errors
//
// A refused request is a [*web.Error], with its HTTP status. With [errors.Is] it matches the
// error of the engine: [ledger.ErrNoQueue], [queuefs.ErrLease] and so on.
// [Temporary] tells whether the same call may succeed later, and [Retry] makes it again,
// when the service says so.
//
// Contexts end calls. A call that takes a job without a lease may lose it then.
//
// # Getting it
//
// The path of this module is that of no server. The owner of a forge gives it one by
//
//	make module MODULE=forge.example/storage/cutie
//
// and commits the change; then go get finds the package there. Until then a program takes
// the module from a directory, by a line "replace cutie => DIR" in its go.mod.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Client calls the methods of a service. It is safe for concurrent use.
//
// Names of queues are cleaned identifiers, identifiers, or names.
type Client struct {
	// UserAgent is the submitter and consumer for the service; "" leaves it to
	// package net/http.
	UserAgent string
	// Header is added to every request, for instance Authorization.
	Header http.Header

	base state.Base
	http *http.Client
}

// maxState is the most octets of a state for a Client: more than the state of a
// queue with 10,000 submitted jobs.
const maxState = 8 << 20

// longestWait is how long one request waits for a job; see [Client.Next].
const longestWait = 60 * time.Second

// New returns a Client of the service at the given baseURI, such as
// "http://127.0.0.1:8080/". If hc is nil it is [http.DefaultClient]. A timeout
// of hc counts for a whole request, with its payload and with the wait for a
// job.
func New(base string, hc *http.Client) *Client {
	if hc == nil {
		hc = http.DefaultClient
	}
	return &Client{base: state.NewBase(base), http: hc}
}

// decoded returns what the state in an answer is of.
func decoded[T any](data []byte, err error, c *state.Class, of func(*state.Document) (T, error)) (none T, _ error) {
	if err != nil {
		return none, err
	}
	d, err := state.Decode(c, data)
	if err != nil {
		return none, err
	}
	return of(&d)
}

func decodeJob(data []byte, err error) (job.Job, error) {
	return decoded(data, err, state.JobClass, (*state.Document).Job)
}

func decodeQueue(data []byte, err error) (state.Queue, error) {
	return decoded(data, err, state.QueueClass, (*state.Document).Queue)
}

func decodeBatch(data []byte, err error) (state.Batch, error) {
	return decoded(data, err, state.BatchClass, (*state.Document).Batch)
}

// ref returns the URL of a resource.
func (c *Client) ref(query url.Values, segments ...string) string {
	ref := c.base.Ref(segments...)
	if len(query) > 0 {
		ref += "?" + query.Encode()
	}
	return ref
}

// state sends a request with a body in memory and returns the state in the
// answer.
func (c *Client) state(ctx context.Context, method string, form state.Form, ref string, header http.Header, text []byte) ([]byte, error) {
	if form.MediaType() == "" {
		return nil, fmt.Errorf("%w: %s", state.ErrForm, form)
	}
	resp, err := c.send(ctx, method, ref, form.MediaType(), header, text)
	if err != nil {
		return nil, err
	}
	return readState(resp)
}

// send sends a request with a body in memory.
func (c *Client) send(ctx context.Context, method, ref, accept string, header http.Header, text []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, ref, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", accept)
	return c.Do(req)
}

func readState(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxState+1))
	if err == nil && len(data) > maxState {
		err = fmt.Errorf("state from %s has more than %d octets", resp.Request.URL.Redacted(), maxState)
	}
	return data, err
}

// doAs sends a request of a user agent, "" for that of the Client.
func (c *Client) doAs(req *http.Request, by, accept string) (*http.Response, error) {
	req.Header.Set("Accept", accept)
	if by != "" {
		req.Header.Set("User-Agent", by)
	}
	return c.Do(req)
}

// Do sends a request. An answer of 400 or above, or outside of the protocol, is
// an error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if c.UserAgent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return nil, fmt.Errorf("%s answers %s instead of a method", req.URL.Redacted(), resp.Status)
	}
	e := &web.Error{Status: resp.StatusCode, After: retryAfter(resp.Header)}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, errors.Join(e, err)
	}
	// An answer of a proxy has nothing but its status.
	form, err := state.FormOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, e
	}
	e.Message = state.DetailOf(form, data)
	return nil, e
}

// Temporary reports whether the same call may succeed later: the service could not be
// reached, was busy, or has failed. It is false for a refusal, such as a missing right,
// a queue that is not there, or a lease that is gone.
func Temporary(err error) bool {
	if e := (*web.Error)(nil); errors.As(err, &e) {
		return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests || e.After > 0
	}
	return err != nil && !errors.Is(err, ledger.ErrNoQueue) && !errors.Is(err, job.ErrBadName) && !errors.Is(err, context.Canceled)
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
	if e := (*web.Error)(nil); errors.As(err, &e) && e.After > 0 {
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
		case ctx.Err() != nil, errors.Is(err, ledger.ErrEmpty):
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
func conclusion(failure error) job.Conclusion {
	if failure == nil {
		return job.Conclusion{Outcome: job.Completed}
	}
	t := (*transientError)(nil)
	text := failure.Error()
	text = text[:min(len(text), job.MaxMessage/3)] // other octets than text take three
	return job.Conclusion{Outcome: job.Failed, Message: text, Transient: errors.As(failure, &t)}
}

// maxBeat is the longest time between two extensions of a lease, so that an abort is
// noticed within it.
const maxBeat = 5 * time.Second

// KeepLease extends the lease of a job, each time by lease, until stop is called. held
// ends then, and before when ctx ends or the lease is lost: the job was aborted or given
// to others, or the service was out of reach for too long. The cause of held is then an
// [queuefs.ErrLease], and so is the error of stop; else stop returns nil.
func (c *Client) KeepLease(ctx context.Context, d *Delivery, lease time.Duration) (held context.Context, stop func() error) {
	held, end := context.WithCancelCause(ctx)
	beating, still := context.WithCancel(held)
	var beat sync.WaitGroup
	beat.Go(func() { c.beat(beating, d, lease, end) })
	return held, func() error {
		still()
		beat.Wait()
		end(nil)
		if err := context.Cause(held); errors.Is(err, queuefs.ErrLease) {
			return err
		}
		return nil
	}
}

func (c *Client) beat(ctx context.Context, d *Delivery, lease time.Duration, lost context.CancelCauseFunc) {
	over := time.Now().Add(lease)
	every := min(lease/3, maxBeat)
	for sleep(ctx, every); ctx.Err() == nil; sleep(ctx, every) {
		asked := time.Now()
		to, cancel := context.WithDeadline(ctx, over)
		_, err := c.Extend(to, d.Queue, d.Job, d.Lease, lease)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			over = asked.Add(lease)
		case errors.Is(err, queuefs.ErrLease), !Temporary(err), !time.Now().Before(over):
			lost(fmt.Errorf("%w: %w", queuefs.ErrLease, err))
			return
		}
	}
}
