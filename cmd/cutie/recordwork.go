package main

import (
	"context"
	"iter"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// What was added to the methods of Cutie is recorded as well.

func (r *recorded) Hold(ctx context.Context, queue, job, why string) (queuefs.Job, error) {
	j, err := r.target.Hold(ctx, queue, job, why)
	r.note(err, http.StatusOK, 0, http.MethodPost, "hold", queue, job)
	return j, err
}

func (r *recorded) Release(ctx context.Context, queue, job string) (queuefs.Job, error) {
	j, err := r.target.Release(ctx, queue, job)
	r.note(err, http.StatusOK, 0, http.MethodPost, "release", queue, job)
	return j, err
}

func (r *recorded) RequeueEnd(ctx context.Context, queue, job string) (queuefs.Job, error) {
	j, err := r.target.RequeueEnd(ctx, queue, job)
	r.note(err, http.StatusCreated, 0, http.MethodPost, "requeue", queue, job)
	return j, err
}

func (r *recorded) Abort(ctx context.Context, queue, job, why string) (queuefs.Job, error) {
	j, err := r.target.Abort(ctx, queue, job, why)
	r.note(err, http.StatusOK, 0, http.MethodPost, "abort", queue, job)
	return j, err
}

func (r *recorded) Bulk(ctx context.Context, queue string, o rest.Operation, s rest.Selection) (state.Changes, error) {
	c, err := r.target.Bulk(ctx, queue, o, s)
	r.note(err, http.StatusOK, 0, http.MethodPost, o.Method, queue)
	return c, err
}

func (r *recorded) Take(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) iter.Seq2[*rest.Delivery, error] {
	return func(yield func(*rest.Delivery, error) bool) {
		for d, err := range r.target.Take(ctx, queue, t, wait) {
			r.note(err, http.StatusOK, deliveredOctets(d), http.MethodPost, "consume", queue)
			if !yield(d, err) {
				return
			}
		}
	}
}

func (r *recorded) Extend(ctx context.Context, queue, job, token string, d time.Duration) (queuefs.Job, error) {
	j, err := r.target.Extend(ctx, queue, job, token, d)
	r.note(err, http.StatusOK, 0, http.MethodPost, "lease", queue, job)
	return j, err
}

func (r *recorded) Conclude(ctx context.Context, queue, job, token string, c queuefs.Conclusion) (queuefs.Job, error) {
	j, err := r.target.Conclude(ctx, queue, job, token, c)
	r.note(err, http.StatusOK, 0, http.MethodPost, "outcome", queue, job)
	return j, err
}

func (r *recorded) Return(ctx context.Context, queue, job, token, message string) (queuefs.Job, error) {
	j, err := r.target.Return(ctx, queue, job, token, message)
	r.note(err, http.StatusOK, 0, http.MethodPost, "outcome", queue, job)
	return j, err
}

func (r *recorded) PutResult(ctx context.Context, queue, job, token string, u rest.Upload) error {
	err := r.target.PutResult(ctx, queue, job, token, u)
	r.note(err, http.StatusCreated, 0, http.MethodPut, "result", queue, job, u.Filename)
	return err
}

func (r *recorded) Result(ctx context.Context, queue, job, name string) (*rest.Delivery, error) {
	d, err := r.target.Result(ctx, queue, job, name)
	r.note(err, http.StatusOK, deliveredOctets(d), http.MethodGet, "result", queue, job, name)
	return d, err
}

func (r *recorded) SetQueue(ctx context.Context, queue string, settings rest.Settings) (state.Queue, error) {
	q, err := r.target.SetQueue(ctx, queue, settings)
	r.note(err, http.StatusOK, 0, http.MethodPost, "state", queue)
	return q, err
}

func (r *recorded) RemoveQueue(ctx context.Context, queue string) error {
	err := r.target.RemoveQueue(ctx, queue)
	r.note(err, http.StatusOK, 0, http.MethodDelete, "state", queue)
	return err
}

func (r *recorded) Cull(ctx context.Context, o queuefs.CullOptions) (state.Changes, error) {
	c, err := r.target.Cull(ctx, o)
	r.note(err, http.StatusOK, 0, http.MethodPost, "cull", o.Queue)
	return c, err
}

func (r *recorded) SubmitManifest(ctx context.Context, queue string, u rest.Upload) ([]string, error) {
	jobs, err := r.target.SubmitManifest(ctx, queue, u)
	r.note(err, http.StatusCreated, 0, http.MethodPost, "content", queue)
	return jobs, err
}

func (r *recorded) Batch(ctx context.Context, queue, batch string) (state.Batch, error) {
	b, err := r.target.Batch(ctx, queue, batch)
	r.note(err, http.StatusOK, 0, http.MethodGet, "batch", queue, batch)
	return b, err
}
