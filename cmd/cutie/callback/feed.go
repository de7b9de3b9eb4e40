package callback

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"sort"
	"sync"
	"time"

	"cutie/queuefs"
)

// A feed is the callback of one queue.
type feed struct {
	s *Sender
	q *queuefs.Queue

	// Guarded by Sender.work.
	turn      time.Time   // when it was last given one
	saved     queuefs.Seq // Q.outbox has what waited after this event was read; 0: there is none
	wrote     queuefs.Seq // the mark as the cursor has it
	staged    string      // the next outbox, under a temporary name; "" if there is none
	stagedSeq queuefs.Seq

	mu      sync.Mutex
	url     string // of the callback; "" if the queue has none
	mark           // up to where everything is done
	read    queuefs.Seq
	readAt  time.Time // of the event read
	waiting backlog   // of the events after done, up to read
	busy    bool      // a worker has it
	next    time.Time // no attempt before
	lastErr string

	delivered int64 // since the Sender was opened
	aside     int64
}

// A mark is what the cursor says of a queue.
type mark struct {
	done     queuefs.Seq // events up to here are delivered, or overtaken by later ones that wait
	doneAt   time.Time   // of that event; of the queue's creation if it is 0
	site     string      // tells the callback from another one; "" if the queue has none
	failing  time.Time   // since then every attempt has failed; zero if the last one did not
	failures int         // attempts since then
	stopped  bool        // the receiver wants no more
}

// openFeed finds where the feed of q goes on.
func (s *Sender) openFeed(q *queuefs.Queue) (*feed, error) {
	f := &feed{s: s, q: q}
	m, known := s.marks[q.ID()]
	o, err := s.readOutbox(q.ID())
	if err != nil {
		return nil, err
	}
	state := q.State()
	switch {
	case known:
		f.mark = m
		if !o.readAt.IsZero() {
			f.saved = o.read
		}
	case !o.readAt.IsZero():
		f.saved, f.doneAt = o.read, state.Info.Created
	default:
		f.done, f.doneAt = oldest(q), state.Info.Created
	}
	if f.done > state.Seq || o.read > state.Seq {
		s.report(q.ID(), "the queue has %d events, but later ones were delivered: the home is an older copy, callbacks go on from now", state.Seq)
		f.done, f.doneAt, f.saved, o = state.Seq, state.LastEvent, 0, outbox{}
		if err := s.dir.Remove(q.ID() + outboxExt); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f.read, f.readAt = f.done, f.doneAt
	if o.read > f.done {
		f.read, f.readAt = o.read, o.readAt
		for _, c := range o.changes {
			if c.seq > f.done {
				f.waiting.add(c)
			}
		}
	}
	delete(s.marks, q.ID())
	return f, nil
}

// oldest returns the event before the first one that the journal has.
func oldest(q *queuefs.Queue) queuefs.Seq {
	return queuefs.Seq(sort.Search(int(q.Seq()), func(n int) bool {
		_, err := q.Events(queuefs.Seq(n), 1)
		return !errors.Is(err, queuefs.ErrGone)
	}))
}

// catchUp takes up a changed callback and reads the events that came.
func (f *feed) catchUp() error {
	info := f.q.Info()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.url = info.Callback
	if site := siteOf(f.url); site != f.site {
		if n := f.waiting.len(); f.url == "" && n > 0 {
			f.s.report(f.q.ID(), "the queue has no callback any more, %d changes were not delivered", n)
		}
		if f.site == "" || f.stopped {
			f.settle() // it begins here
		}
		f.mark = mark{done: f.done, doneAt: f.doneAt, site: site}
		f.next, f.lastErr = time.Time{}, ""
	}
	if f.url == "" || f.stopped {
		f.skip()
		return nil
	}
	if err := f.readEvents(); err != nil {
		return err
	}
	f.settle()
	return nil
}

// skip passes over all there is. The mark follows at the next checkpoint: a
// queue whose first callback is set right before a crash then begins early
// enough. f.mu is held.
func (f *feed) skip() {
	if state := f.q.State(); state.Seq > f.read || f.waiting.len() > 0 {
		f.read, f.readAt, f.waiting = state.Seq, state.LastEvent, backlog{}
	}
}

// finish takes a change out that needs no attempt any more; f.mu is held.
func (f *feed) finish(c change) {
	f.waiting.remove(c)
	if c.seq > f.done {
		f.done, f.doneAt = c.seq, c.at
	}
}

// settle moves the mark to the last event read if nothing waits; f.mu is held.
func (f *feed) settle() {
	if f.waiting.len() == 0 {
		f.done, f.doneAt = f.read, f.readAt
	}
}

// readEvents reads the events since the last time; f.mu is held.
func (f *feed) readEvents() error {
	for f.read < f.q.Seq() {
		events, err := f.q.Events(f.read, 0)
		for i := range events {
			e := &events[i]
			if e.Job != 0 || e.Kind == queuefs.Phase { // else it is of the properties of the queue
				f.waiting.add(change{e.Seq, e.Time, e.Kind, about{e.Job, e.Subject}, e.Phase})
			}
			f.read, f.readAt = e.Seq, e.Time
		}
		if errors.Is(err, queuefs.ErrGone) {
			err = f.rediscover()
		}
		if err == nil {
			err = f.limit()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limit sets the oldest changes aside if too many wait, a tenth at a time
// lest it be one with every event; f.mu is held.
func (f *feed) limit() error {
	n := f.waiting.len()
	if n <= f.s.MaxWaiting {
		return nil
	}
	return f.kill(f.waiting.all()[:n-f.s.MaxWaiting+f.s.MaxWaiting/10], "more waited than there is room for")
}

// rediscover takes the jobs that have changed since the last event read from
// the index, where the journal no longer says what happened; f.mu is held.
func (f *feed) rediscover() error {
	// Before the look at the jobs: what comes later is in the journal again.
	state := f.q.State()
	var entries []queuefs.Entry
	for p := range f.q.Pages() {
		if version, _, _, _ := f.q.PageVersion(p); version > f.read {
			page, _, _ := f.q.Page(p, nil)
			for _, e := range page {
				if e.File.Modified.After(f.readAt) {
					entries = append(entries, e)
				}
			}
		}
	}
	slices.SortFunc(entries, func(a, b queuefs.Entry) int { return a.File.Modified.Compare(b.File.Modified) })
	lost := len(entries) - min(len(entries), f.s.MaxWaiting)
	var changes []change
	for _, e := range entries[lost:] {
		j, err := f.q.Job(e.Job)
		switch {
		case errors.Is(err, queuefs.ErrNoJob):
		case errors.Is(err, queuefs.ErrClosed), errors.Is(err, queuefs.ErrFailed):
			return err
		case err != nil:
			lost++
		case j.Seq > f.read && j.Seq <= state.Seq:
			changes = append(changes, change{seq: j.Seq, at: e.File.Modified, kind: kindOf(&j), about: about{job: e.Job}})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range changes {
		f.waiting.add(c)
	}
	f.s.report(f.q.ID(), "the journal has no events after number %d and before %d: %d jobs that changed are told of, %d are not, nor are those culled, and phases",
		f.read, state.Seq+1, len(changes), lost)
	f.read, f.readAt = state.Seq, state.LastEvent
	return nil
}

// kindOf returns which event led to where the job stands.
func kindOf(j *queuefs.Job) queuefs.Kind {
	switch {
	case j.Status == queuefs.Consumed:
		return queuefs.Consume
	case j.Status == queuefs.Deleted:
		return queuefs.Delete
	case j.Requeues > 0:
		return queuefs.Requeue
	}
	return queuefs.Submit
}

// due tells whether there is something to deliver now.
func (f *feed) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.busy && f.url != "" && !f.stopped && f.waiting.len() > 0 && !now.Before(f.next)
}

func (f *feed) setBusy(busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = busy
}

// kill sets changes aside that are not to be delivered any more; f.mu is held.
func (f *feed) kill(changes []change, reason string) error {
	if len(changes) == 0 {
		return nil
	}
	if err := f.s.bury(f.q.ID(), changes, reason); err != nil {
		return err
	}
	for _, c := range changes {
		f.finish(c)
	}
	f.aside += int64(len(changes))
	f.settle()
	f.s.report(f.q.ID()+deadExt, "%d changes were not delivered: %s; the jobs are listed there", len(changes), reason)
	return nil
}
