package publisher

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// A subject is a queue as it is published. It never changes.
type subject struct {
	p    *Publisher
	q    Queue
	refs *names.Queue
	born string // when the queue was made, in entity tags
}

// A follower reads the events of one queue into both sets.
type follower struct {
	subject
	sets [names.Sets]*set

	users int    // who need it open; its lock is the one of followers
	used  uint64 // number of the last use

	mu sync.Mutex // held while events are read
}

func (p *Publisher) subject(q Queue) subject {
	return subject{p: p, q: q, refs: p.Base.Queue(q.ID()), born: fmt.Sprintf("-%x", q.State().Info.Created.UnixMicro())}
}

// openFollower opens the sets of a queue. open are its lines of the cursor,
// nil if there are none.
func (p *Publisher) openFollower(q Queue, open []store.Line) (*follower, error) {
	f := &follower{subject: p.subject(q)}
	for i := range f.sets {
		var at *store.Line
		if len(open) == names.Sets {
			at = &open[i]
		}
		s := newSet(f.subject, names.Set(i), f.catchUp)
		if err := s.restore(at); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		f.sets[i] = s
	}
	// Find a gap now, when it ends with the events there are.
	if _, err := q.Events(f.read(), 1); errors.Is(err, queuefs.ErrGone) {
		if err := f.skip(); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return f, nil
}

// read returns the last event in both sets.
func (f *follower) read() queuefs.Seq {
	return min(f.sets[names.Pending].seq(), f.sets[names.Replica].seq())
}

// eventBatch is how many events are read at a time.
const eventBatch = 512

// maxTries is how often catchUp begins again at the same event.
const maxTries = 10

// catchUp reads all events committed before the call. After an error the lists
// are true up to an earlier event, and the next call goes on from there.
func (f *follower) catchUp() error {
	to := f.q.Seq()
	if f.read() >= to {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.p.failure(); err != nil {
		return err
	}
	var buf []byte
	tries := 0 // in which a damaged list began again and no event was read
	for at, before := f.read(), f.read(); at < to; at, before = f.read(), at {
		if tries++; at > before {
			tries = 0
		}
		if tries > maxTries {
			return fmt.Errorf("lists after event %d do not stay as they are written", at)
		}
		events, err := f.q.Events(at, eventBatch)
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
			if err := s.append(events, &buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// skip leaves a gap where events are gone: the open lists are closed where they
// end, and new ones begin after the last event.
func (f *follower) skip() error {
	next := f.listNow()
	for _, s := range f.sets {
		if err := s.skip(next); err != nil {
			return err
		}
	}
	return nil
}

// lastChange returns the time of the last event in any document, or of the
// creation of the queue.
func (s *set) lastChange() time.Time {
	if s.catchUp() != nil {
		return s.orCreated(s.q.State().LastEvent) // or of a later event
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orCreated(s.at.Until)
}

// created returns when the queue was made.
func (f *subject) created() time.Time {
	t := f.q.State().Info.Created
	if t.IsZero() {
		t = time.Unix(0, 0) // a document must say since when
	}
	return t.UTC()
}

// orCreated returns t, or when the queue was made if t is zero.
func (f *subject) orCreated(t time.Time) time.Time {
	if t.IsZero() {
		return f.created()
	}
	return t.UTC()
}

func (f *subject) renderer() entries.Renderer {
	return entries.Renderer{Refs: f.refs, Dialect: f.p.Dialect, Mirrors: f.p.MirrorURIs, Via: f.p.ViaURI}
}

// listNow returns the open list after the last event, without entries.
func (f *subject) listNow() store.OpenList {
	st := f.q.State()
	return store.NewOpenList(st.Seq, f.orCreated(st.LastEvent))
}
