package main

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Jobs as they are sent, several states or one message, are recorded as well.

func (r *recorded) NextMessage(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) (*rest.Delivery, error) {
	d, err := r.target.NextMessage(ctx, queue, t, wait)
	r.note(err, http.StatusOK, deliveredOctets(d), http.MethodPost, "consume", queue)
	return d, err
}

func (r *recorded) PeekMessage(ctx context.Context, queue, job string) (*rest.Delivery, error) {
	d, err := r.target.PeekMessage(ctx, queue, job)
	r.note(err, http.StatusOK, deliveredOctets(d), http.MethodGet, "content", queue, job)
	return d, err
}

func (r *recorded) Jobs(ctx context.Context, queue string, page rest.Page) iter.Seq2[queuefs.Job, error] {
	return func(yield func(queuefs.Job, error) bool) {
		var failed error
		defer func() { r.note(failed, http.StatusOK, 0, http.MethodGet, "state", queue) }()
		for j, err := range r.target.Jobs(ctx, queue, page) {
			if failed = err; !yield(j, err) {
				return
			}
		}
	}
}

func (r *recorded) JobStates(ctx context.Context, form state.Form, queue string, page rest.Page) (io.ReadCloser, queuefs.JobID, error) {
	in, next, err := r.target.JobStates(ctx, form, queue, page)
	r.note(err, http.StatusOK, 0, http.MethodGet, "state", queue)
	return in, next, err
}
