package publisher

import (
	"errors"
	"fmt"
	"sync"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// A follower reads the events of one queue into both sets.
type follower struct {
	set.Subject
	p    *Publisher
	sets [names.Sets]*set.Set
	heir *heir // the queue, if it inherits events; else nil

	users int    // who need it open; its lock is the one of followers, as of the next two
	used  uint64 // number of the last use
	brief bool   // opened by a visit, and not used since

	mu sync.Mutex // held while events are read
}

// openFollower opens the sets of a queue. open are its lines of the cursor,
// nil if there are none.
func (p *Publisher) openFollower(q Queue, open []store.Line) (*follower, error) {
	f := &follower{p: p, heir: p.inherits(q, open)}
	if f.heir != nil {
		q = f.heir
	}
	f.Subject = p.src.Subject(q)
	for i := range f.sets {
		var at *store.Line
		if len(open) == names.Sets {
			at = &open[i]
		}
		var err error
		if f.sets[i], err = set.Open(f.Subject, names.Set(i), at, f.catchUp); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	// Find a gap now, when it ends with the events there are.
	if f.heir.has(f.read()) {
		return f, nil
	}
	if _, err := q.Events(f.read(), 1); errors.Is(err, queuefs.ErrGone) {
		if err := f.skip(); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return f, nil
}

// read returns the last event in both sets.
func (f *follower) read() queuefs.Seq {
	return min(f.sets[names.Pending].Seq(), f.sets[names.Replica].Seq())
}

// maxTries is how often catchUp begins again at the same event.
const maxTries = 10

// catchUp reads all events committed before the call. After an error the lists
// are true up to an earlier event, and the next call goes on from there.
func (f *follower) catchUp() error {
	to := f.Queue.Seq()
	if f.read() >= to {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Failure(); err != nil {
		return err
	}
	var events []queuefs.Event
	var err error
	tries := 0 // in which a damaged list began again and no event was read
	for at, before := f.read(), f.read(); at < to; at, before = f.read(), at {
		if tries++; at > before {
			tries = 0
		}
		if tries > maxTries {
			return fmt.Errorf("lists after event %d do not stay as they are written", at)
		}
		events, err = f.events(at)
		if errors.Is(err, queuefs.ErrGone) {
			return f.skip()
		}
		if err != nil {
			return err
		}
		if len(events) == 0 || events[0].Seq != at+1 {
			return fmt.Errorf("events after %d of %d are missing", at, to)
		}
		for _, s := range f.sets {
			if err := s.Append(events); err != nil {
				return err
			}
		}
	}
	return nil
}

// events returns events after one, some at a time: inherited ones, or those in the journal.
func (f *follower) events(after queuefs.Seq) ([]queuefs.Event, error) {
	if f.heir.has(after) {
		return f.heir.events(after, set.EventBatch)
	}
	return f.Queue.Events(after, set.EventBatch)
}

// skip leaves a gap where events are gone: the open lists are closed where they
// end, and new ones begin after the last event.
func (f *follower) skip() error {
	next, why := f.Queue.Seq(), ""
	if f.p.cursor.None() {
		why = ", and there is no " + store.CursorFile + " to say where the list was"
	}
	for _, s := range f.sets {
		if err := s.Skip(next, why); err != nil {
			return err
		}
	}
	return nil
}
