package uws

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/queuefs"
)

// limits remembers until when the jobs of a queue may run that somebody works
// on. All of it can be found again from the queue.
type limits struct {
	mu      sync.Mutex
	of      map[queuefs.JobID]limit
	changes int // calls of forget
}

type limit struct {
	changed time.Time // of the job, when it was looked at
	allowed int64     // seconds by the settings of the queue, likewise
	began   time.Time
	until   time.Time // zero: no limit
}

// forget makes that limits are found anew.
func (l *limits) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
	l.changes++
}

// Tick aborts the jobs that have run for as long as they may, and destroys
// those whose time has come. Call it a few times a second: it costs what
// happened. The first calls after a start read the records of jobs, a thousand
// of each queue at a call. An error is told of every call that it hinders, and
// of none what was set aside before.
func (h *Handler) Tick(ctx context.Context) error {
	errs := h.sweep()
	for _, q := range h.svc.Queues() {
		if err := h.tick(ctx, q); err != nil && ctx.Err() == nil && removing(q) == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs, ctx.Err())
}

// tick is Tick for one queue.
func (h *Handler) tick(ctx context.Context, q *queuefs.Queue) error {
	s, err := h.shelf(q)
	if err != nil {
		return err
	}
	defer s.leave()
	set, usable, err := s.settings()
	if usable {
		err = errors.Join(err, h.makeUpAll(ctx, s), h.stopOverdue(ctx, s, set), s.readSome(ctx), h.destroyDue(ctx, s, set), s.tell())
		s.past.learn(q, h.now())
	}
	return err
}

// stopOverdue aborts the jobs of a queue that run for too long.
func (h *Handler) stopOverdue(ctx context.Context, s *shelf, set settings) error {
	now := h.o.Now()
	leased := s.q.Leased()
	s.limits.mu.Lock()
	known, changes := s.limits.of, s.limits.changes
	s.limits.mu.Unlock()
	if len(known) == 0 && len(leased) == 0 {
		return nil
	}
	next := make(map[queuefs.JobID]limit, len(leased))
	for _, id := range leased {
		l, err := h.limitOf(s, set, id, known[id])
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return err
		}
		if !l.until.IsZero() && !now.Before(l.until) {
			_, err := s.q.AbortAttempt(ctx, id, l.began, "execution duration exceeded")
			if err != nil && !errors.Is(err, queuefs.ErrConflict) && !errors.Is(err, queuefs.ErrNoJob) {
				return err
			}
			continue
		}
		next[id] = l
	}
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	if s.limits.changes != changes {
		next = nil // what was found may be older than the change
	}
	s.limits.of = next
	return nil
}

// limitOf returns the limit of a job that somebody works on, which is looked
// at again only when it has changed.
func (h *Handler) limitOf(s *shelf, set settings, id queuefs.JobID, was limit) (limit, error) {
	_, changed := s.q.Status(id)
	if !was.changed.IsZero() && was.changed.Equal(changed) && was.allowed == set.duration {
		return was, nil
	}
	cut, err := s.q.Job(id)
	if err != nil {
		return limit{}, err
	}
	l := limit{changed: changed, allowed: set.duration, began: cut.Consumed}
	if j := s.jobOf(set, &cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			l.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return l, nil
}

// destroyDue looks at the records that are due.
func (h *Handler) destroyDue(ctx context.Context, s *shelf, set settings) error {
	now := h.now()
	for ctx.Err() == nil {
		s.mu.Lock()
		id, ok := s.due.pop(now)
		s.mu.Unlock()
		if !ok {
			return nil
		}
		if err := h.look(ctx, s, set, id, now); err != nil {
			s.lookAt(id, now.Add(time.Second)) // once more
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return ctx.Err()
}

// look does with a record what is due now: the job is destroyed, or what a
// crash kept from being done of that is done; a RUN that did not come to its end
// is settled; the record of a job that the queue no longer has goes.
func (h *Handler) look(ctx context.Context, s *shelf, set settings, id string, now time.Time) error {
	defer s.lock(id)()
	if err := h.makeUp(ctx, s, id); err != nil && !errors.Is(err, queuefs.ErrNoSpace) { // as found has it
		return err
	}
	rec, err := s.record(id)
	if strange := (*strangeError)(nil); errors.As(err, &strange) {
		return nil // it is set aside at the next start
	}
	if err != nil || rec == nil {
		return err
	}
	over := !rec.destruction.IsZero() && !rec.destruction.After(now)
	if rec.job == 0 {
		if rec.from != 0 {
			return h.settle(s, id)
		}
		if over {
			return h.destroy(ctx, &job{id: id, s: s, set: set, rec: rec}, false)
		}
		s.remember(rec)
		return nil
	}
	cut, err := s.last(rec)
	if errors.Is(err, queuefs.ErrNoJob) {
		return s.drop(id)
	}
	if err != nil {
		return err
	}
	j := &job{id: id, s: s, set: set, rec: rec, cut: cut}
	switch {
	case !rec.destroyed.IsZero() || !rec.archived.IsZero():
		err = h.clear(ctx, j)
	case over:
		return h.destroy(ctx, j, set.archive)
	}
	s.note(rec, rec.next(now))
	return err
}

// last returns the job of the queue that a record is of: the last one, if it
// was put at the end of the queue again.
func (s *shelf) last(rec *record) (*queuefs.Job, error) {
	cut, err := s.q.Job(rec.job)
	for err == nil {
		again, e := queuefs.ParseJobID(cut.Extra.Value("requeuedAs"))
		if e != nil || again <= cut.ID || !isMade(rec.id) {
			return &cut, nil
		}
		cut, err = s.q.Job(again)
	}
	return nil, err
}
