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
	rooms map[waitKey]*room
	count map[*queuefs.Queue]*watcher
}

// A room is where those wait who wait for the same job. When something happens
// to it all of them go on into the next room, and one of them looks at the job
// for all: ten thousand cost as much as one.
type room struct {
	q    *queuefs.Queue
	key  waitKey
	wake chan struct{} // closed when something has happened

	waiting int // waits.mu is held; those who are here, and one as long as somebody is in the room before

	once sync.Once
	next *room
	job  *job // as it was when next was there
	err  error
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
	w.rooms, w.count = map[waitKey]*room{}, map[*queuefs.Queue]*watcher{}
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

// enter returns the room of a job. What happens to the job from now on wakes
// those in it.
func (w *waits) enter(q *queuefs.Queue, k waitKey) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[k]
	if r == nil {
		r = &room{q: q, key: k, wake: make(chan struct{})}
		w.rooms[k] = r
	}
	w.stay(r)
	return r
}

// stay counts one more who waits. w.mu is held.
func (w *waits) stay(r *room) {
	r.waiting++
	at := w.count[r.q]
	if at == nil {
		ctx, stop := context.WithCancel(w.closing)
		at = &watcher{stop: stop}
		w.count[r.q] = at
		seen := r.q.Seq()
		w.all.Go(func() { w.watch(ctx, r.q, seen) })
	}
	at.waiting++
}

// leave is the end of enter, and of goOn.
func (w *waits) leave(r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; r != nil; r = r.next {
		if at := w.count[r.q]; at.waiting == 1 {
			at.stop()
			delete(w.count, r.q)
		} else {
			at.waiting--
		}
		if r.waiting--; r.waiting > 0 {
			return
		}
		if w.rooms[r.key] == r {
			delete(w.rooms, r.key)
		}
	}
}

// goOn leads from a room that was woken to the next one, and returns the job as
// it is there.
func (h *Handler) goOn(set settings, r *room, id string) (next *room, now *job, err error) {
	w := &h.waits
	r.once.Do(func() {
		next := w.enter(r.q, r.key)
		r.job, r.err = h.find(r.q, set, id)
		w.mu.Lock()
		r.next = next
		w.mu.Unlock()
	})
	w.mu.Lock()
	w.stay(r.next)
	w.mu.Unlock()
	w.leave(r)
	return r.next, r.job, r.err
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
	if r := w.rooms[k]; r != nil {
		close(r.wake)
		delete(w.rooms, k)
	}
}

func (w *waits) wakeAll(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, r := range w.rooms {
		if k.queue == queue {
			close(r.wake)
			delete(w.rooms, k)
		}
	}
}

// await returns the job once its phase is another one, or when the seconds are
// over; -1 is as long as the Handler lets anybody wait. A job in a phase that
// ends by other hands only is not waited for.
func (h *Handler) await(r *request, j *job, seconds int) (*job, error) {
	ctx, cancel := h.following(r.Context())
	defer cancel()
	if seconds >= 0 && seconds <= int(h.o.MaxWait/time.Second) {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer done()
	}
	was := j.phase()
	return h.stayWith(ctx, r, j, func(p phase) bool { return p == was && p.active() })
}

// stayWith returns the job once its phase is none that the caller stays for, or
// when ctx ends. The caller may see the job, and so may see what becomes of it:
// it keeps its owner.
func (h *Handler) stayWith(ctx context.Context, r *request, j *job, stay func(phase) bool) (now *job, err error) {
	if !stay(j.phase()) {
		return j, nil
	}
	at := h.waits.enter(j.q, keyOf(j))
	defer func() { h.waits.leave(at) }()
	// It may have changed before anybody could have been woken.
	now, err = h.found(r, false)
	for {
		if errors.Is(err, errNoJob) {
			err = notFound("job not found")
		}
		if err != nil || !stay(now.phase()) {
			return now, err
		}
		if k := keyOf(now); k != at.key { // it was started
			was := at
			at = h.waits.enter(now.q, k)
			h.waits.leave(was)
			now, err = h.found(r, false)
			continue
		}
		select {
		case <-at.wake:
			at, now, err = h.goOn(r.set, at, now.id)
		case <-ctx.Done():
			return now, nil
		}
	}
}
