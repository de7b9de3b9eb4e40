package publisher

import (
	"context"
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
)

// A request that waits for a document to change is woken by the next event of
// its queue, and compares. A document may also change without an event, such as
// an index when a period is over: each Tick compares it once for all its
// waiters. A waiter costs only memory while nothing happens.

// maxWait bounds the time a request may wait.
const maxWait = 60 * time.Second

// maxVain is how many events may wake a waiter in vain. After that only Ticks
// wake it, so that waiters do not slow down a queue busy with other things.
const maxVain = 100

// await returns the resource of a request once it differs from res, or as it is
// when the time is over or the client gone.
func (p *Publisher) await(r *http.Request, res *resource, find func() (*resource, error), wait time.Duration, same func(*resource) bool) (*resource, error) {
	path := r.URL.EscapedPath()
	patience, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	for vain := 0; ; vain++ {
		eager := res.queue != nil && vain < maxVain
		var seq queuefs.Seq
		if eager {
			seq = res.queue.Seq()
		}
		ctx, wake := context.WithCancel(patience)
		leave := p.polls.enter(path, find, res.state(), wake)
		now, err := find()
		if err == nil && same(now) {
			if eager {
				res.queue.Wait(ctx, seq) // an error shows in find
			} else {
				<-ctx.Done()
			}
			now, err = find()
		}
		leave()
		wake()
		if err != nil || !same(now) || patience.Err() != nil {
			return now, err
		}
		res = now
	}
}

// state differs for each state of the resource at one path.
func (r *resource) state() string { return r.born + "-" + r.tag }

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
func (p *polls) enter(path string, find func() (*resource, error), state string, wake context.CancelFunc) (leave func()) {
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

// check wakes the waiters whose documents have changed or are gone.
func (p *polls) check() {
	p.mu.Lock()
	all := maps.Clone(p.all)
	p.mu.Unlock()
	for path, w := range all {
		state := "gone"
		if r, err := w.find(); err == nil {
			state = r.state()
		}
		p.wake(path, state)
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

// preferredWait returns how long a client prefers to wait, in whole seconds; 0
// without a preference (RFC 7240, 2 and 4.3). The first one counts.
func preferredWait(h http.Header) time.Duration {
	for _, field := range h["Prefer"] {
		for item := range strings.SplitSeq(field, ",") {
			item, _, _ = strings.Cut(item, ";")
			name, value, _ := strings.Cut(item, "=")
			if !strings.EqualFold(textproto.TrimString(name), "wait") {
				continue
			}
			value = strings.Trim(textproto.TrimString(value), `"`)
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(n)*time.Second, maxWait)
		}
	}
	return 0
}
