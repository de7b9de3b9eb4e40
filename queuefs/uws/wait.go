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

	mu       sync.Mutex
	rooms    map[waitKey]*room
	watchers map[*queuefs.Queue]*watcher
}

// A room is where those wait who wait for the same job. When something happens
// to it, one of them is woken, and looks at the job for all; the others are
// woken then. Who has to wait on does so in the next room: ten thousand cost
// little more than one.
type room struct {
	key     waitKey
	watcher *watcher
	waiting int           // waits.mu is held; those who are here, and one as long as somebody is in the room before
	wake    chan struct{} // has an element when something has happened
	looked  chan struct{} // closed when what follows is there
	next    *room
	job     *job
	err     error
}

// A waitKey is a job of the queue, or one that is not in it.
type waitKey struct {
	q   *queuefs.Queue
	job queuefs.JobID
	id  string
}

// A watcher is one as long as it watches.
type watcher struct {
	waiting int // waits.mu is held
	stop    context.CancelFunc
	err     error // why it watches no longer: all of its rooms were woken; waits.mu is held
}

func (w *waits) begin() {
	w.closing, w.close = context.WithCancel(context.Background())
	w.rooms, w.watchers = map[waitKey]*room{}, map[*queuefs.Queue]*watcher{}
}

func (w *waits) end() {
	w.close()
	w.all.Wait()
}

func keyOf(j *job) waitKey {
	if j.cut != nil {
		return waitKey{q: j.s.q, job: j.cut.ID}
	}
	return waitKey{q: j.s.q, id: j.id}
}

// enter returns the room of a job. What happens to the job from now on wakes
// those in it.
func (w *waits) enter(k waitKey) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[k]
	if r == nil {
		r = &room{key: k, watcher: w.watcherOf(k.q), wake: make(chan struct{}, 1), looked: make(chan struct{})}
		w.rooms[k] = r
	}
	w.stay(r)
	return r
}

// watcherOf returns that of a queue. w.mu is held.
func (w *waits) watcherOf(q *queuefs.Queue) *watcher {
	at := w.watchers[q]
	if at == nil {
		ctx, stop := context.WithCancel(w.closing)
		at = &watcher{stop: stop}
		w.watchers[q] = at
		seen := q.Seq()
		w.all.Go(func() { w.watch(ctx, q, at, seen) })
	}
	return at
}

// stay counts one more who waits. w.mu is held.
func (w *waits) stay(r *room) {
	r.waiting++
	r.watcher.waiting++
}

// leave is the end of enter, and of goOn.
func (w *waits) leave(r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving(r)
}

// leaving is leave; w.mu is held.
func (w *waits) leaving(r *room) {
	for ; r != nil; r = r.next {
		if r.watcher.waiting--; r.watcher.waiting == 0 {
			r.watcher.stop()
			if w.watchers[r.key.q] == r.watcher {
				delete(w.watchers, r.key.q)
			}
		}
		if r.waiting--; r.waiting > 0 {
			return
		}
		if w.rooms[r.key] == r {
			delete(w.rooms, r.key)
		}
	}
}

// look is for the one who was woken: it looks at the job for all in the room.
// The next room is there before, so that nothing is missed in between.
func (w *waits) look(r *room, by *request, id string) {
	next := w.enter(r.key)
	r.job, r.err = by.s.find(by.set, id)
	w.mu.Lock()
	r.next = next
	w.mu.Unlock()
	close(r.looked)
}

// goOn leads from a room where the job was looked at to the next one.
func (w *waits) goOn(r *room) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stay(r.next)
	w.leaving(r)
	return r.next
}

// watch wakes those whose jobs have events, and all when it cannot tell whose
// they were.
func (w *waits) watch(ctx context.Context, q *queuefs.Queue, at *watcher, seen queuefs.Seq) {
	for {
		if err := q.Wait(ctx, seen); err != nil {
			if ctx.Err() == nil {
				w.die(q, at, err) // removed, or the storage has failed
			}
			return
		}
		events, err := q.Events(seen, 0)
		if err != nil {
			seen = q.Seq()
			w.mu.Lock()
			w.wakeAll(at)
			w.mu.Unlock()
		}
		for _, e := range events {
			seen = e.Seq
			w.wake(waitKey{q: q, job: e.Job})
		}
	}
}

// die ends a watcher. Whoever comes now begins another one.
func (w *waits) die(q *queuefs.Queue, at *watcher, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.err = err; w.watchers[q] == at {
		delete(w.watchers, q)
	}
	w.wakeAll(at)
}

// died returns why nobody watches for those in a room any longer, nil if
// somebody does.
func (w *waits) died(r *room) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.watcher.err
}

func (w *waits) wake(k waitKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[k]; r != nil {
		r.wake <- struct{}{}
		delete(w.rooms, k)
	}
}

// wakeAll wakes all for whom a watcher watches. w.mu is held.
func (w *waits) wakeAll(at *watcher) {
	for k, r := range w.rooms {
		if r.watcher == at {
			r.wake <- struct{}{}
			delete(w.rooms, k)
		}
	}
}

// await returns the job once its phase is another one, or when the seconds are
// over; -1 is as long as the Handler lets anybody wait. A job in a phase that
// ends by other hands only is not waited for.
func (h *Handler) await(r *request, j *job, seconds int) (*job, error) {
	most := h.o.MaxWait
	if seconds >= 0 && seconds <= int(most/time.Second) {
		most = time.Duration(seconds) * time.Second
	}
	was := j.phase()
	return h.stayWith(r, j, most, func(p phase) bool { return p == was && p.active() })
}

// stayWith returns the job once its phase is none that the caller stays for,
// when the time is over, the client has gone, or the Handler is closed. The
// caller may see the job, and so may see what becomes of it: it keeps its owner.
// Nobody is to change the job that is returned: it is that of others, too.
func (h *Handler) stayWith(r *request, j *job, most time.Duration, stay func(phase) bool) (now *job, err error) {
	if !stay(j.phase()) {
		return j, nil
	}
	w := &h.waits
	over := time.NewTimer(most)
	defer over.Stop()
	at := w.enter(keyOf(j))
	defer func() { w.leave(at) }()
	// It may have changed before anybody could have been woken.
	now, err = r.s.find(r.set, j.id)
	for woken, last := false, false; ; {
		switch {
		case errors.Is(err, errNoJob):
			return nil, notFound("job not found")
		case err != nil:
			return nil, err
		case last || !stay(now.phase()):
			return now, nil
		}
		if woken {
			switch err := w.died(at); {
			case errors.Is(err, queuefs.ErrNoQueue):
				// Nobody would wake those who stay. A queue may stay in the end
				// that was to be removed.
				return now, h.gone(now.s.q)
			case err != nil:
				return nil, err
			}
		}
		if k := keyOf(now); k != at.key { // it was started
			was := at
			at = w.enter(k)
			w.leave(was)
			woken = false
			now, err = r.s.find(r.set, j.id)
			continue
		}
		if woken {
			at = w.goOn(at)
		}
		select {
		case <-at.wake:
			w.look(at, r, j.id)
		case <-at.looked:
		case <-over.C:
			// Nobody was woken by what is no phase, and perhaps not yet by what
			// has just happened.
			last = true
			now, err = r.s.find(r.set, j.id)
			continue
		case <-r.Context().Done():
			return now, nil
		case <-w.closing.Done():
			return now, nil
		}
		woken, now, err = true, at.job, at.err
	}
}
