package uws

import (
	"context"
	"errors"
	"sync"
	"time"

	"cutie/queuefs"
)

// waits wakes those who wait for a job. One goroutine a queue reads what
// happens in it, as long as somebody waits for a job of the queue, and wakes
// those only whose job it is.
type waits struct {
	closing context.Context
	close   context.CancelFunc
	all     sync.WaitGroup

	mu    sync.Mutex
	of    map[waitKey]map[chan struct{}]bool
	count map[*queuefs.Queue]*watcher
}

// A waitKey is a job of the queue, or one that is not in it.
type waitKey struct {
	queue string
	job   queuefs.JobID
	id    string
}

type watcher struct {
	waiting int
	stop    context.CancelFunc
}

func (w *waits) begin() {
	w.closing, w.close = context.WithCancel(context.Background())
	w.of, w.count = map[waitKey]map[chan struct{}]bool{}, map[*queuefs.Queue]*watcher{}
}

func (w *waits) end() {
	w.close()
	w.all.Wait()
}

func keyOf(j *job) waitKey {
	if j.cut != nil {
		return waitKey{queue: j.q.ID(), job: j.cut.ID}
	}
	return waitKey{queue: j.q.ID(), id: j.id}
}

// join registers one who waits for a job; wake is closed when something has
// happened to it.
func (w *waits) join(q *queuefs.Queue, k waitKey) (wake chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake = make(chan struct{})
	if w.of[k] == nil {
		w.of[k] = map[chan struct{}]bool{}
	}
	w.of[k][wake] = true
	at := w.count[q]
	if at == nil {
		ctx, stop := context.WithCancel(w.closing)
		at = &watcher{stop: stop}
		w.count[q] = at
		seen := q.Seq()
		w.all.Go(func() { w.watch(ctx, q, seen) })
	}
	at.waiting++
	return wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.of[k], wake); len(w.of[k]) == 0 {
			delete(w.of, k)
		}
		if at.waiting--; at.waiting == 0 {
			at.stop()
			delete(w.count, q)
		}
	}
}

// watch wakes those whose jobs have events.
func (w *waits) watch(ctx context.Context, q *queuefs.Queue, seen queuefs.Seq) {
	for {
		if err := q.Wait(ctx, seen); err != nil {
			if ctx.Err() == nil {
				w.wakeAll(q.ID()) // removed, or the storage has failed
			}
			return
		}
		events, err := q.Events(seen, 0)
		if err != nil {
			if !errors.Is(err, queuefs.ErrGone) {
				w.wakeAll(q.ID())
				return
			}
			seen = q.Seq()
			w.wakeAll(q.ID())
		}
		for _, e := range events {
			seen = e.Seq
			w.wake(waitKey{queue: q.ID(), job: e.Job})
		}
	}
}

func (w *waits) wake(k waitKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.of[k] {
		close(c)
	}
	delete(w.of, k)
}

func (w *waits) wakeAll(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, all := range w.of {
		if k.queue == queue {
			for c := range all {
				close(c)
			}
			delete(w.of, k)
		}
	}
}

// await returns the job once its phase is another one, or when the seconds are
// over; -1 is as long as the Handler lets anybody wait. A job in a phase that
// ends by other hands only is not waited for.
func (h *Handler) await(r *request, j *job, seconds int) (*job, error) {
	ctx, cancel := h.following(r.Context())
	defer cancel()
	if limit := time.Duration(seconds) * time.Second; seconds >= 0 && limit < h.o.MaxWait {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, limit)
		defer done()
	}
	was := j.phase()
	for was.active() {
		wake, leave := h.waits.join(j.q, keyOf(j))
		// It may have changed before anybody could have been woken.
		now, err := h.found(r, false)
		if err != nil {
			leave()
			return nil, err
		}
		if now.phase() != was {
			leave()
			return now, nil
		}
		if keyOf(now) != keyOf(j) {
			leave()
			j = now
			continue
		}
		select {
		case <-wake:
			leave()
		case <-ctx.Done():
			leave()
			return now, nil
		}
		j = now
	}
	return j, nil
}
