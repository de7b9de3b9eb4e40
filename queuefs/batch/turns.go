package batch

import (
	"strings"
	"sync"
)

// turns gives out the files to fetch: hosts take turns, and only a few files
// are fetched from one of them at a time.
type turns struct {
	mu      sync.Mutex
	changed sync.Cond
	ready   []*host // with a file to fetch now
	left    int     // payloads nobody has begun to fetch
	perHost int
}

// A host has payloads to be fetched.
type host struct {
	places  []int // not yet begun
	running int
}

// A turn is to fetch one payload.
type turn struct {
	host  *host
	place int
}

func (t *turns) init(sources []source, perHost int) {
	t.changed.L, t.left, t.perHost = &t.mu, len(sources), perHost
	hosts := map[string]*host{}
	for place := range sources {
		name := strings.ToLower(sources[place].url.Hostname())
		h := hosts[name]
		if h == nil {
			h = &host{}
			hosts[name] = h
			t.ready = append(t.ready, h)
		}
		h.places = append(h.places, place)
	}
}

// next ends a turn, if there was one, and returns another; nil if there is none
// left. It waits while all hosts with files are busy.
func (t *turns) next(last *turn) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last != nil {
		h := last.host
		if h.running == t.perHost && len(h.places) > 0 {
			t.ready = append(t.ready, h)
			t.changed.Signal()
		}
		h.running--
	}
	for t.left > 0 && len(t.ready) == 0 {
		t.changed.Wait()
	}
	if t.left == 0 {
		return nil
	}
	h := t.ready[0]
	t.ready = t.ready[1:]
	turn := &turn{h, h.places[0]}
	h.places = h.places[1:]
	h.running++
	if h.running < t.perHost && len(h.places) > 0 {
		t.ready = append(t.ready, h)
	}
	if t.left--; t.left == 0 {
		t.changed.Broadcast()
	}
	return turn
}

// end lets nobody have another turn.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = 0
	t.changed.Broadcast()
}
