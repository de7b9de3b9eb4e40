package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Files in log/ of a home.
const (
	webAccess = "web-access.txt" // requests of a daemon
	cmdAccess = "cmd-access.txt" // what commands did that opened the home
)

// Sizes of access logs where nothing else is asked for.
const (
	defaultLogMax  = 100 << 20 // octets
	defaultLogKeep = 9
)

// A recorded target writes down what is done with a home that this process has
// open, as the request that would have been made of a daemon: the host is the
// name of the service, the referer the working directory, the user agent the
// login.
type recorded struct {
	target
	log   *access.Log
	entry access.Entry
}

// recorded begins to record, or says why it cannot and goes on without.
func (c *call) recorded(l *local) target {
	log, err := access.OpenLog(filepath.Join(l.svc.Dir(), "log", cmdAccess), defaultLogMax, defaultLogKeep)
	if err != nil {
		c.warnf("access log: %v", err)
		return l
	}
	r := &recorded{target: l, log: log, entry: access.Entry{Host: l.svc.Info().Name, Proto: "HTTP/1.1"}}
	r.entry.Referer, _ = os.Getwd()
	if u, err := user.Current(); err == nil {
		r.entry.Agent = u.Username
	}
	return r
}

// Close closes the home, and then the log.
func (r *recorded) Close() error { return errors.Join(r.target.Close(), r.log.Close()) }

// note writes one request down. done is its status where err is nil.
func (r *recorded) note(err error, done int, octets int64, method string, path ...string) {
	e := r.entry
	e.Time, e.Method, e.Status, e.Octets = time.Now(), method, done, octets
	for _, p := range path {
		if p != "" {
			e.Target += "/" + url.PathEscape(p)
		}
	}
	if err != nil {
		e.Status = statusOf(err)
	}
	r.log.Add(&e)
}

// statusOf is the status with which a daemon would have answered.
func statusOf(err error) int {
	var answer *rest.Error
	switch {
	case errors.As(err, &answer):
		return answer.Status
	case errors.Is(err, queuefs.ErrEmpty):
		return http.StatusNoContent
	case errors.Is(err, queuefs.ErrTooBig):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, queuefs.ErrNoSpace):
		return http.StatusInsufficientStorage
	case errors.Is(err, queuefs.ErrDigest), errors.Is(err, digest.ErrMismatch):
		return http.StatusBadRequest
	}
	switch exitCode(err) {
	case exitNotFound:
		return http.StatusNotFound
	case exitConflict:
		return http.StatusConflict
	case exitUsage:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

func (r *recorded) Submit(ctx context.Context, queue string, uploads ...rest.Upload) ([]string, error) {
	jobs, err := r.target.Submit(ctx, queue, uploads...)
	r.note(err, http.StatusCreated, 0, http.MethodPost, "content", queue)
	return jobs, err
}

func (r *recorded) Next(ctx context.Context, queue string, wait time.Duration) (*rest.Delivery, error) {
	d, err := r.target.Next(ctx, queue, wait)
	r.note(err, http.StatusOK, deliveredOctets(d), http.MethodPost, "consume", queue)
	return d, err
}

func (r *recorded) Peek(ctx context.Context, queue, job string) (*rest.Delivery, error) {
	d, err := r.target.Peek(ctx, queue, job)
	r.note(err, http.StatusOK, deliveredOctets(d), http.MethodGet, "content", queue, job)
	return d, err
}

func deliveredOctets(d *rest.Delivery) int64 {
	if d == nil {
		return 0
	}
	return max(d.Size, 0)
}

func (r *recorded) Delete(ctx context.Context, queue, job string) (queuefs.Job, error) {
	j, err := r.target.Delete(ctx, queue, job)
	r.note(err, http.StatusAccepted, 0, http.MethodDelete, "content", queue, job)
	return j, err
}

func (r *recorded) Requeue(ctx context.Context, queue, job string) (queuefs.Job, error) {
	j, err := r.target.Requeue(ctx, queue, job)
	r.note(err, http.StatusOK, 0, http.MethodPost, "requeue", queue, job)
	return j, err
}

func (r *recorded) State(ctx context.Context, form state.Form, queue, job string, page ...rest.Page) ([]byte, error) {
	text, err := r.target.State(ctx, form, queue, job, page...)
	r.note(err, http.StatusOK, int64(len(text)), http.MethodGet, "state", queue, job)
	return text, err
}

func (r *recorded) Service(ctx context.Context) (state.Service, error) {
	s, err := r.target.Service(ctx)
	r.note(err, http.StatusOK, 0, http.MethodGet, "state")
	return s, err
}

func (r *recorded) Queue(ctx context.Context, queue string, page rest.Page) (state.Queue, error) {
	q, err := r.target.Queue(ctx, queue, page)
	r.note(err, http.StatusOK, 0, http.MethodGet, "state", queue)
	return q, err
}

func (r *recorded) Job(ctx context.Context, queue, job string) (queuefs.Job, error) {
	j, err := r.target.Job(ctx, queue, job)
	r.note(err, http.StatusOK, 0, http.MethodGet, "state", queue, job)
	return j, err
}

func (r *recorded) CreateQueue(ctx context.Context, info queuefs.QueueInfo) (state.Queue, error) {
	q, err := r.target.CreateQueue(ctx, info)
	r.note(err, http.StatusCreated, 0, http.MethodPut, "state", info.ID)
	return q, err
}
