package publisher

import (
	"cmp"
	"context"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
	"maps"
	"net/http"
	"sync"
	"time"
)

// The next event of the queue wakes a waiting request, to compare the document. A document
// may also change without an event, like an index when a period is over: [server.Check]
// compares it once for all its waiters. A waiter costs only memory while nothing happens.

// maxWait bounds the time a request may wait.
const maxWait = 60 * time.Second

// maxVain is how many events may wake a waiter in vain. After that only Check
// wakes it: waiters must not slow down a queue busy with other things.
const maxVain = 100

// await returns the resource of a request once it differs from res, or as it is
// when the time is over or the client gone. The error is that of a caller who has lost
// the right meanwhile.
func (s *server) await(r *http.Request, res *resource, find func() (*resource, error), wait time.Duration,
	same func(*resource) bool) (*resource, error) {
	path := r.URL.EscapedPath()
	patience, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	for vain := 0; ; vain++ {
		eager := res.Events != nil && vain < maxVain
		var seq job.Seq
		if eager {
			seq = res.Events.Seq()
		}
		ctx, wake := context.WithCancel(patience)
		leave := s.polls.enter(path, find, res.State(), wake)
		now, err := find()
		if err == nil && same(now) {
			if eager {
				res.Events.Wait(ctx, seq) // an error shows in find
			} else {
				<-ctx.Done()
			}
			now, err = find()
		}
		leave()
		wake()
		if err != nil || !same(now) || patience.Err() != nil {
			return now, cmp.Or(web.Still(r.Context()), err)
		}
		res = now
	}
}

// polls are the waiters, by path.
type polls struct {
	mu   sync.Mutex
	last int
	all  map[string]*poll
}

type poll struct {
	find  func() (*resource, error)
	state string // of the resource when it was compared last
	wake  map[int]context.CancelFunc
}

// enter registers a waiter for the resource to leave a state. The waiter calls
// leave at the end.
func (p *polls) enter(path string, find func() (*resource, error), state string,
	wake context.CancelFunc) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[string]*poll)
	}
	w := p.all[path]
	if w == nil {
		w = &poll{find: find, state: state, wake: make(map[int]context.CancelFunc)}
		p.all[path] = w
	}
	p.last++
	n := p.last
	w.wake[n] = wake
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(w.wake, n)
		if len(w.wake) == 0 && p.all[path] == w {
			delete(p.all, path)
		}
	}
}

// Check wakes the waiters of documents changed or gone.
func (s *server) Check() {
	s.polls.mu.Lock()
	all := maps.Clone(s.polls.all)
	s.polls.mu.Unlock()
	for path, w := range all {
		state := "gone"
		if r, err := w.find(); err == nil {
			state = r.State()
		}
		s.polls.wake(path, state)
	}
}

func (p *polls) wake(path, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.all[path]
	if w == nil || w.state == state {
		return
	}
	w.state = state
	for _, wake := range w.wake {
		wake()
	}
}
