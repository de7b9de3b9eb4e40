package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/queuefs"
)

// A subject is a queue as it is published. It never changes.
type subject struct {
	p     *Publisher
	q     Queue
	names *names
	born  string // when the queue was made, in entity tags
}

// A follower reads the events of one queue into both sets.
type follower struct {
	subject
	sets [numSets]*set

	mu sync.Mutex // held while events are read
}

// openFollower opens the sets of a queue. marks are its lines of the cursor,
// nil if there are none.
func (p *Publisher) openFollower(q Queue, marks []mark) (*follower, error) {
	f := &follower{subject: subject{p: p, q: q, names: p.site.queue(q.ID()), born: fmt.Sprintf("-%x", q.State().Info.Created.UnixMicro())}}
	for i := range f.sets {
		var m *mark
		if len(marks) == numSets {
			m = &marks[i]
		}
		s := newSet(f.subject, Set(i), f.catchUp)
		if err := s.restore(m); err != nil {
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

// read returns the last event that both sets have.
func (f *follower) read() queuefs.Seq {
	return min(f.sets[Pending].seq(), f.sets[Replica].seq())
}

// eventBatch is how many events are read at a time.
const eventBatch = 512

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
	for at := f.read(); at < to; at = f.read() {
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
	next := f.markNow()
	for _, s := range f.sets {
		if err := s.skip(next); err != nil {
			return err
		}
	}
	return nil
}

// closeOld closes the open lists whose first entry came before a time.
func (f *follower) closeOld(before time.Time) error {
	for _, s := range f.sets {
		if err := s.closeOld(before); err != nil {
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
	return s.orCreated(s.mark.at)
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

// markNow returns the mark of a list that begins after the last event.
func (f *subject) markNow() mark {
	st := f.q.State()
	return beginning(st.Seq, f.orCreated(st.LastEvent))
}

// Service is what a Source needs of *queuefs.Service.
type Service[Q Queue] interface {
	Dir() string
	Queues() []Q
	Queue(name string) (Q, error)
}

// Queue is what a Source needs of *queuefs.Queue. All methods show committed
// events only. Seq, State, Pages, PageVersion, Page, Status and
// InfoFile read memory.
type Queue interface {
	ID() string
	Seq() queuefs.Seq
	Wait(ctx context.Context, after queuefs.Seq) error
	State() queuefs.QueueState
	Events(after queuefs.Seq, max int) ([]queuefs.Event, error)
	Pages() int
	PageVersion(p int) (version queuefs.Seq, at time.Time, pending, total int)
	Page(p int, dst []queuefs.Entry) (entries []queuefs.Entry, version queuefs.Seq, at time.Time)
	Status(id queuefs.JobID) (queuefs.Status, time.Time)
	InfoFile() ([]byte, queuefs.Facts)
	JobFile(id queuefs.JobID, st queuefs.Status) ([]byte, queuefs.Facts, error)
	Payload(id queuefs.JobID) (*queuefs.Payload, error)
}

// engine is a Service whose queues are interfaces.
type engine struct {
	dir    string
	queues func() []Queue
	queue  func(id string) (Queue, error)
}

func adapt[Q Queue](svc Service[Q]) engine {
	return engine{
		dir: svc.Dir(),
		queues: func() []Queue {
			all := svc.Queues()
			out := make([]Queue, len(all))
			for i, q := range all {
				out[i] = q
			}
			return out
		},
		queue: func(id string) (Queue, error) {
			q, err := svc.Queue(id)
			if err != nil {
				return nil, err
			}
			return q, nil
		},
	}
}
