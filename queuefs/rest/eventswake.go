package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"cutie/queuefs"
)

// A wakes wakes the streams of all queues: one goroutine a queue waits for its
// next event, however many streams there are, as long as there is one. Those
// who follow a single queue wait for themselves.
type wakes struct {
	mu      sync.Mutex
	streams int
	watched map[*queuefs.Queue]bool
	watch   func(*queuefs.Queue) // starts a watcher
	stop    func()               // ends the watchers and waits for them
	changed chan struct{}        // closed at the next event
	err     error                // the service takes no changes any more
}

// join registers a stream, which calls leave at its end. The last one to leave
// waits until the watchers have ended.
func (w *wakes) join() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams++; w.streams == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		w.watched, w.changed, w.err = map[*queuefs.Queue]bool{}, make(chan struct{}), nil
		w.watch = func(q *queuefs.Queue) {
			seen := q.Seq()
			all.Go(func() { w.follow(ctx, q, seen) })
		}
		w.stop = func() { cancel(); all.Wait() }
	}
	return func() {
		w.mu.Lock()
		stop := func() {}
		if w.streams--; w.streams == 0 {
			stop = w.stop
		}
		w.mu.Unlock()
		stop()
	}
}

// follow wakes everybody at each event of q.
func (w *wakes) follow(ctx context.Context, q *queuefs.Queue, seen queuefs.Seq) {
	for {
		err := q.Wait(ctx, seen)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.fail(q, err)
			return
		}
		seen = q.Seq()
		w.wake()
	}
}

// next returns a channel that is closed at the next event of any of the
// queues, new ones among them, or the error that ends all streams.
func (w *wakes) next(queues []*queuefs.Queue) (<-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) < len(queues) {
		for _, q := range queues {
			if !w.watched[q] {
				w.watched[q] = true
				w.watch(q)
			}
		}
	}
	return w.changed, w.err
}

func (w *wakes) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams > 0 {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// fail ends the watching of q, and all streams unless it was only removed.
func (w *wakes) fail(q *queuefs.Queue, err error) {
	w.mu.Lock()
	delete(w.watched, q)
	if !errors.Is(err, queuefs.ErrNoQueue) {
		w.err = cmp.Or(w.err, err)
	}
	w.mu.Unlock()
	w.wake()
}

// waking tells the streams of all queues that serve may have made a queue.
func (h *Handler) waking(serve func(http.ResponseWriter, *request) error) func(http.ResponseWriter, *request) error {
	return func(w http.ResponseWriter, r *request) error {
		defer h.wakes.wake()
		return serve(w, r)
	}
}

// meet takes up new queues, from their first event on, lets go of those that
// were removed, and returns what wakes the stream.
func (s *stream) meet() (<-chan struct{}, error) {
	queues := s.h.svc.Queues()
	wake, err := s.h.wakes.next(queues)
	if err != nil {
		return nil, err
	}
	if slices.EqualFunc(s.follows, queues, func(f follow, q *queuefs.Queue) bool { return f.q == q }) {
		return wake, nil
	}
	seqs := make(map[*queuefs.Queue]queuefs.Seq, len(s.follows))
	for _, f := range s.follows {
		seqs[f.q] = f.seq
	}
	s.follows, s.unnamed = nil, true
	for _, q := range queues {
		// Of a queue that came since, all events.
		s.follows = append(s.follows, follow{q, max(seqs[q], q.State().Before)})
	}
	return wake, s.fits()
}
