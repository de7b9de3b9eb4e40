package uws

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/queuefs"
)

// limits remembers until when the jobs may run that somebody works on. All of
// it can be found again from the queue.
type limits struct {
	mu sync.Mutex
	of map[waitKey]limit
}

type limit struct {
	changed time.Time // of the job, when it was looked at
	began   time.Time
	until   time.Time // zero: no limit
}

// forget makes that the limit of a job is found anew.
func (l *limits) forget(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, keyOf(j))
}

// Tick aborts the jobs that have run for as long as they may, and destroys
// those whose time has come. Call it a few times a second. The first call after
// a start reads the record of each job that has one.
func (h *Handler) Tick(ctx context.Context) error {
	var errs error
	for _, q := range h.svc.Queues() {
		set, err := settingsOf(q)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		s := h.shelf(q)
		err = errors.Join(h.stopOverdue(ctx, q, set), s.readAll(ctx), h.destroyDue(ctx, q, set, s))
		if err != nil && ctx.Err() == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs, ctx.Err())
}

// stopOverdue aborts the jobs of a queue that run for too long.
func (h *Handler) stopOverdue(ctx context.Context, q *queuefs.Queue, set settings) error {
	leased := q.Leased()
	now := h.o.Now()
	known := map[waitKey]limit{}
	h.limits.mu.Lock()
	for k, l := range h.limits.of {
		if k.queue == q.ID() {
			known[k] = l
		}
	}
	h.limits.mu.Unlock()
	next := map[waitKey]limit{}
	for _, id := range leased {
		k := waitKey{queue: q.ID(), job: id}
		l, err := h.limitOf(q, set, id, known[k])
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return err
		}
		if !l.until.IsZero() && !now.Before(l.until) {
			_, err := q.AbortAttempt(ctx, id, l.began, "execution duration exceeded")
			if err != nil && !errors.Is(err, queuefs.ErrConflict) && !errors.Is(err, queuefs.ErrNoJob) {
				return err
			}
			continue
		}
		next[k] = l
	}
	h.limits.mu.Lock()
	defer h.limits.mu.Unlock()
	if h.limits.of == nil {
		h.limits.of = map[waitKey]limit{}
	}
	for k, l := range known {
		if _, still := next[k]; !still && h.limits.of[k] == l {
			delete(h.limits.of, k)
		}
	}
	for k, l := range next {
		if was, ok := known[k]; !ok || was != l {
			h.limits.of[k] = l
		}
	}
	return nil
}

// limitOf returns the limit of a job that somebody works on, which is looked
// at again only when it has changed.
func (h *Handler) limitOf(q *queuefs.Queue, set settings, id queuefs.JobID, was limit) (limit, error) {
	_, changed := q.Status(id)
	if !was.changed.IsZero() && was.changed.Equal(changed) {
		return was, nil
	}
	cut, err := q.Job(id)
	if err != nil {
		return limit{}, err
	}
	l := limit{changed: changed, began: cut.Consumed}
	if j := h.jobOf(q, set, h.shelf(q), &cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			l.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return l, nil
}

// destroyDue looks at the records that are due.
func (h *Handler) destroyDue(ctx context.Context, q *queuefs.Queue, set settings, s *shelf) error {
	now := h.now()
	for ctx.Err() == nil {
		s.mu.Lock()
		id, ok := s.due.pop(now)
		s.mu.Unlock()
		if !ok {
			return nil
		}
		if err := h.look(ctx, q, set, s, id, now); err != nil {
			s.mu.Lock()
			s.due.add(now.Add(time.Second), id) // once more
			s.mu.Unlock()
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return ctx.Err()
}

// look does with a record what is due now: the job is destroyed, or what a
// crash kept from being done of that is done; the record of a job that the
// queue no longer has goes.
func (h *Handler) look(ctx context.Context, q *queuefs.Queue, set settings, s *shelf, id string, now time.Time) error {
	defer s.lock(id)()
	rec, err := s.record(id)
	if err != nil || rec == nil {
		return err
	}
	over := !rec.destruction.IsZero() && !rec.destruction.After(now)
	if rec.job == 0 {
		if over {
			return h.destroy(ctx, &job{id: id, q: q, set: set, rec: rec}, false)
		}
		return nil // its destruction stands among the dues
	}
	cut, err := h.last(q, rec)
	if errors.Is(err, queuefs.ErrNoJob) {
		return s.drop(id)
	}
	if err != nil {
		return err
	}
	j := &job{id: id, q: q, set: set, rec: rec, cut: cut}
	switch {
	case !rec.destroyed.IsZero() || !rec.archived.IsZero():
		err = h.clear(ctx, j)
	case over:
		return h.destroy(ctx, j, set.archive)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due.add(rec.next(now), id)
	return err
}

// last returns the job of the queue that a record is of: the last one, if it
// was put at the end of the queue again.
func (h *Handler) last(q *queuefs.Queue, rec *record) (*queuefs.Job, error) {
	cut, err := q.Job(rec.job)
	for err == nil {
		again, e := queuefs.ParseJobID(cut.Extra.Value("requeuedAs"))
		if e != nil || again <= cut.ID || !isMade(rec.id) {
			return &cut, nil
		}
		cut, err = q.Job(again)
	}
	return nil, err
}
