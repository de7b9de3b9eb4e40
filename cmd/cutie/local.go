package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// A local target is a home that this process has open, for the length of one
// verb.
type local struct {
	svc  *queuefs.Service
	base state.Base
}

// openLocal opens a home. What was found damaged in it goes to warn.
func openLocal(dir string, warn func(string, ...any)) (*local, error) {
	svc, err := queuefs.Open(dir, queuefs.Options{Report: func(p queuefs.Problem) { warn("%s", p) }})
	if err != nil {
		return nil, err
	}
	// References lead to where a daemon would answer.
	base := svc.Info().BaseURI
	if base == "" {
		base = "http://" + defaultListen + "/"
		svc.SetBaseURI(base)
	}
	return &local{svc, state.NewBase(base)}, nil
}

// queue finds a queue. A name that cannot be one is not found either.
func (l *local) queue(name string) (*queuefs.Queue, error) {
	q, err := l.svc.Queue(name)
	if errors.Is(err, queuefs.ErrBadName) {
		return nil, queuefs.ErrNoQueue
	}
	return q, err
}

func (l *local) Close() error { return l.svc.Close() }

// agent is who the program says it is, as submitter and as consumer.
func agent() string {
	login := "unknown"
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return "cutie/" + queuefs.Version + " (" + login + "@" + host + ")"
}

func (l *local) Submit(ctx context.Context, queue string, uploads ...rest.Upload) ([]string, error) {
	q, err := l.queue(queue)
	if err != nil {
		return nil, err
	}
	s := q.Begin()
	defer s.Discard()
	for _, u := range uploads {
		if err := errors.Join(ctx.Err(), addUpload(s, u)); err != nil {
			return nil, err
		}
	}
	jobs, err := s.Commit(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID.String()
	}
	return ids, nil
}

func addUpload(s *queuefs.Submission, u rest.Upload) (err error) {
	m := u.Meta
	m.Submitter = agent()
	d, err := s.Add(m)
	if err != nil {
		return err
	}
	body, err := u.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	_, err = io.Copy(d, body)
	return err
}

// Next does not wait: while a home is open here, nobody else can submit.
func (l *local) Next(ctx context.Context, queue string, _ time.Duration) (*rest.Delivery, error) {
	q, err := l.queue(queue)
	if err != nil {
		return nil, err
	}
	j, err := q.Next(ctx, agent())
	if err != nil {
		return nil, err
	}
	return delivery(q, j)
}

func (l *local) Peek(_ context.Context, queue, job string) (*rest.Delivery, error) {
	if job != "" {
		q, j, err := l.job(queue, job, (*queuefs.Queue).Job)
		if err != nil {
			return nil, err
		}
		return delivery(q, j)
	}
	q, err := l.queue(queue)
	if err != nil {
		return nil, err
	}
	j, err := q.Peek()
	if err != nil {
		return nil, err
	}
	return delivery(q, j)
}

func delivery(q *queuefs.Queue, j queuefs.Job) (*rest.Delivery, error) {
	p, err := q.Payload(j.ID)
	if err != nil {
		return nil, err
	}
	return &rest.Delivery{Queue: q.ID(), Job: j.ID.String(), Filename: j.Filename, MediaType: j.Type(),
		Sidecar: j.Sidecar, Size: p.Size(), Body: p}, nil
}

func (l *local) Delete(ctx context.Context, queue, job string) (queuefs.Job, error) {
	_, j, err := l.job(queue, job, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) { return q.Delete(ctx, id) })
	return j, err
}

func (l *local) Requeue(ctx context.Context, queue, job string) (queuefs.Job, error) {
	_, j, err := l.job(queue, job, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) { return q.Requeue(ctx, id) })
	return j, err
}

func (l *local) Job(_ context.Context, queue, job string) (queuefs.Job, error) {
	_, j, err := l.job(queue, job, (*queuefs.Queue).Job)
	return j, err
}

// job does something to a job, or asks something of it.
func (l *local) job(queue, job string, do func(*queuefs.Queue, queuefs.JobID) (queuefs.Job, error)) (*queuefs.Queue, queuefs.Job, error) {
	q, err := l.queue(queue)
	if err != nil {
		return nil, queuefs.Job{}, err
	}
	id, err := queuefs.ParseJobID(job)
	if err != nil {
		return nil, queuefs.Job{}, err
	}
	j, err := do(q, id)
	return q, j, err
}

func (l *local) State(ctx context.Context, form state.Form, queue, job string, page ...rest.Page) ([]byte, error) {
	var d state.Document
	switch {
	case queue == "":
		s, err := l.Service(ctx)
		if err != nil {
			return nil, err
		}
		d = state.OfService(&s)
	case job == "":
		var p rest.Page
		if len(page) > 0 {
			p = page[0]
		}
		q, err := l.Queue(ctx, queue, p)
		if err != nil {
			return nil, err
		}
		d = state.OfQueue(l.base, &q)
	default:
		j, err := l.Job(ctx, queue, job)
		if err != nil {
			return nil, err
		}
		d = state.OfJob(l.base, &j)
	}
	return form.Append(nil, &d), nil
}

func (l *local) Service(context.Context) (state.Service, error) {
	s := state.Service{ServiceInfo: l.svc.Info()}
	for _, q := range l.svc.Queues() {
		s.Queues = append(s.Queues, q.ID())
	}
	return s, nil
}

func (l *local) Queue(_ context.Context, queue string, page rest.Page) (state.Queue, error) {
	q, err := l.queue(queue)
	if err != nil {
		return state.Queue{}, err
	}
	jobs := state.Jobs{Status: page.Status, After: page.After, Limit: max(page.Limit, 0)}
	if page.Limit == 0 {
		jobs.Limit = state.DefaultJobs
	}
	ids := q.IDs(queuefs.ListOptions{Status: jobs.Status, After: jobs.After, Limit: jobs.Limit + 1})
	jobs.More = len(ids) > jobs.Limit
	jobs.IDs = ids[:min(len(ids), jobs.Limit)]
	return state.Queue{QueueState: q.State(), Jobs: jobs}, nil
}

func (l *local) CreateQueue(ctx context.Context, info queuefs.QueueInfo) (state.Queue, error) {
	q, err := l.svc.CreateQueue(ctx, info)
	if err != nil {
		return state.Queue{}, err
	}
	return state.Queue{QueueState: q.State()}, nil
}
