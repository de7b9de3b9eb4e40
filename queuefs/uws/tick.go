package uws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs"
)

// Tick aborts jobs at the end of their execution duration, and destroys or
// archives jobs at their destruction. Call it a few times a second: its cost
// grows with the jobs due and in work.
func (h *Handler) Tick(ctx context.Context) error {
	h.ticking.Lock()
	defer h.ticking.Unlock()
	var errs error
	limits := map[*queuefs.Queue]map[queuefs.JobID]limit{}
	for _, q := range h.svc.Timed() {
		v := viewOf(q)
		next, err := h.stopOverdue(ctx, v, h.limits[q])
		limits[q] = next
		if err = errors.Join(err, h.destroyDue(ctx, v)); err != nil && !errors.Is(err, queuefs.ErrNoQueue) && ctx.Err() == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	h.limits = limits
	return errors.Join(errs, ctx.Err())
}

// A limit is the end of the execution duration of a job in work.
type limit struct {
	changed time.Time // last event of the job
	allowed int64     // seconds by the settings of the queue
	began   time.Time
	until   time.Time // zero: no limit
}

// stopOverdue aborts jobs at the end of their execution duration. It returns the
// limits of those in work, for the next time.
func (h *Handler) stopOverdue(ctx context.Context, v view, known map[queuefs.JobID]limit) (map[queuefs.JobID]limit, error) {
	next := map[queuefs.JobID]limit{}
	for _, id := range v.q.Leased() {
		l, err := v.limitOf(id, known[id])
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return next, err
		}
		if l.until.IsZero() || h.o.Now().Before(l.until) {
			next[id] = l
			continue
		}
		_, err = v.q.AbortAttempt(ctx, id, l.began, "execution duration exceeded")
		if err != nil && !errors.Is(err, queuefs.ErrConflict) && !errors.Is(err, queuefs.ErrNoJob) {
			return next, err
		}
	}
	return next, nil
}

// limitOf returns the limit of a job in work. It reads the job file only after
// a change.
func (v view) limitOf(id queuefs.JobID, known limit) (limit, error) {
	_, changed := v.q.Status(id)
	if !known.changed.IsZero() && known.changed.Equal(changed) && known.allowed == v.set.duration {
		return known, nil
	}
	cut, err := v.q.Job(id)
	if err != nil {
		return limit{}, err
	}
	l := limit{changed: changed, allowed: v.set.duration, began: cut.Consumed}
	if j := v.listed(&cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			l.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return l, nil
}

// dueAtOnce is how many jobs of a queue one Tick destroys.
const dueAtOnce = 1000

// destroyDue destroys or archives the due jobs. The next Tick tries failed ones
// again.
func (h *Handler) destroyDue(ctx context.Context, v view) error {
	ids, err := v.q.Due(ctx, h.now(), dueAtOnce)
	for _, id := range ids {
		if e := h.destroyNow(ctx, v, id); err == nil {
			err = e
		}
	}
	return err
}

// destroyNow destroys or archives a job if it is still due.
func (h *Handler) destroyNow(ctx context.Context, v view, id queuefs.JobID) error {
	cut, err := v.q.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.lock(v.q, v.idOf(&cut))()
	cut, err = v.q.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) || err == nil && (cut.Destruction.IsZero() || cut.Destruction.After(h.now())) {
		return nil // it was changed meanwhile
	}
	if err != nil {
		return err
	}
	j := v.as(v.idOf(&cut), &cut)
	if err := j.destroy(ctx, h.now(), v.set.archive); err != nil {
		return fmt.Errorf("job %s: %w", j.id, err)
	}
	return nil
}
