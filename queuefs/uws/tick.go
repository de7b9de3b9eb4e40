package uws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cutie/queuefs"
)

// Tick aborts jobs at the end of their execution duration, and destroys or
// archives jobs at their destruction. Call it a few times a second: its cost
// grows with the jobs due and in work, and with the queues that have changed.
func (h *Handler) Tick(ctx context.Context) error {
	h.ticks.Lock()
	defer h.ticks.Unlock()
	h.forget()
	var errs error
	queues := h.awake()
	h.ticks.again = nil
	for _, q := range queues {
		err := h.tick(ctx, q)
		if err == nil || errors.Is(err, queuefs.ErrNoQueue) {
			continue
		}
		h.ticks.again = append(h.ticks.again, q)
		if ctx.Err() == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs, ctx.Err())
}

// ticks say which queues a Tick looks at. The lock is held during one.
type ticks struct {
	sync.Mutex
	seen  uint64           // see [queuefs.Service.Changed]
	count int              // of queues, at the last look
	again []*queuefs.Queue // those that failed
}

// awake returns the queues with jobs in work or with a time to be destroyed, and of
// those that have changed, or failed the last time, the ones that clients of UWS use.
func (h *Handler) awake() []*queuefs.Queue {
	var changed []*queuefs.Queue
	changed, h.ticks.seen = h.svc.Changed(h.ticks.seen)
	all := map[*queuefs.Queue]bool{}
	for _, q := range slices.Concat(h.svc.Timed(), h.ticks.again) {
		all[q] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range changed {
		if h.lists[q.ID()] != nil || speaks(q) {
			all[q] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// speaks reports whether the properties of a queue are about UWS.
func speaks(q *queuefs.Queue) bool {
	return q.Info().UWS != queuefs.QueueInfo{}.UWS
}

// tick is Tick for one queue.
func (h *Handler) tick(ctx context.Context, q *queuefs.Queue) error {
	l, err := h.list(q)
	if err != nil {
		return err
	}
	info := q.Info()
	set := settingsOf(&info)
	return errors.Join(h.stopOverdue(ctx, l, set), h.destroyDue(ctx, l, set))
}

// A limit is the end of the execution duration of a job in work.
type limit struct {
	changed time.Time // last event of the job
	allowed int64     // seconds by the settings of the queue
	began   time.Time
	until   time.Time // zero: no limit
}

// stopOverdue aborts jobs at the end of their execution duration.
func (h *Handler) stopOverdue(ctx context.Context, l *jobList, set settings) error {
	now := h.o.Now()
	next := map[queuefs.JobID]limit{}
	for _, id := range l.q.Leased() {
		lim, err := l.limitOf(set, id)
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return err
		}
		if lim.until.IsZero() || now.Before(lim.until) {
			next[id] = lim
			continue
		}
		_, err = l.q.AbortAttempt(ctx, id, lim.began, "execution duration exceeded")
		if err != nil && !errors.Is(err, queuefs.ErrConflict) && !errors.Is(err, queuefs.ErrNoJob) {
			return err
		}
	}
	l.limits = next
	return nil
}

// limitOf returns the limit of a job in work. It reads the job file only after
// a change.
func (l *jobList) limitOf(set settings, id queuefs.JobID) (limit, error) {
	_, changed := l.q.Status(id)
	if was := l.limits[id]; !was.changed.IsZero() && was.changed.Equal(changed) && was.allowed == set.duration {
		return was, nil
	}
	cut, err := l.q.Job(id)
	if err != nil {
		return limit{}, err
	}
	lim := limit{changed: changed, allowed: set.duration, began: cut.Consumed}
	if j := l.jobOf(set, &cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			lim.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return lim, nil
}

// dueAtOnce is how many jobs of a queue one Tick destroys.
const dueAtOnce = 1000

// destroyDue destroys or archives the due jobs. The next Tick tries failed ones
// again.
func (h *Handler) destroyDue(ctx context.Context, l *jobList, set settings) error {
	ids, err := l.q.Due(ctx, h.now(), dueAtOnce)
	for _, id := range ids {
		if e := h.destroyNow(ctx, l, set, id); err == nil {
			err = e
		}
	}
	return err
}

// destroyNow destroys or archives a job if it is still due.
func (h *Handler) destroyNow(ctx context.Context, l *jobList, set settings, id queuefs.JobID) error {
	cut, err := l.q.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.lock(l.idOf(&cut))()
	if cut, err = l.q.Job(id); errors.Is(err, queuefs.ErrNoJob) || err == nil && (cut.Destruction.IsZero() || cut.Destruction.After(h.now())) {
		return nil // it was changed meanwhile
	}
	if err != nil {
		return err
	}
	j := l.jobAs(set, l.idOf(&cut), &cut)
	if err := j.destroy(ctx, h.now(), set.archive); err != nil {
		return fmt.Errorf("job %s: %w", j.id, err)
	}
	return nil
}
