package callback

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs"
)

// A feed is the callback of one queue, as the cursor has it, and its state in
// memory. Its position is number and time of an event: up to there all changes
// are delivered, or overtaken by later ones in the backlog. The lock of the
// sender guards the fields shared by Tick and workers.
type feed struct {
	Queue string `json:"queue"`
	Site  string `json:"site,omitempty"` // tells the URL from another one; "" without callback
	push.Target

	q       *queuefs.Queue // nil: the queue is not there now
	url     string         // "": the queue has no callback, or it is lost
	lost    error          // why the URL cannot be read: changes wait; of Tick and Flush
	waiting backlog        // of the events after the position, up to read
	sent    change         // the message in progress
	failed  bool           // as Turned was told
	since   tally

	read   queuefs.Seq // changed by Tick and Flush
	readAt time.Time   // of that event
	met    bool        // the callback has been taken up; of Tick and Flush
	past   *past       // while the Sender is idle
	saved  queuefs.Seq // Q.outbox has the changes up to this event; 0: there is none; of Tick and Flush
}

// A tally counts changes since the Sender was opened.
type tally struct{ delivered, aside int64 }

// Key implements [push.Record].
func (f *feed) Key() string { return f.Queue }

// position returns the position of an event.
func position(seq queuefs.Seq, at time.Time) string {
	return fmt.Sprint(seq, " ", queuefs.FormatTime(at))
}

// done returns the event of the position.
func (f *feed) done() (queuefs.Seq, time.Time) {
	number, at, _ := strings.Cut(f.Position, " ")
	seq, t, _ := parseEvent(number, at)
	return seq, t
}

// settle moves the position to the last event read if nothing waits, and
// reports whether it has moved.
func (f *feed) settle() bool {
	before := f.Position
	if f.waiting.len() == 0 {
		f.Position = position(f.read, f.readAt)
	}
	return f.Position != before
}

// skip passes over all events up to now. The position follows at the next
// checkpoint: with a first callback right before a crash a queue then begins
// early enough.
func (f *feed) skip(now queuefs.QueueState) {
	if now.Seq > f.read || f.waiting.len() > 0 {
		f.read, f.readAt, f.waiting = now.Seq, now.LastEvent, backlog{}
	}
}

// A past is a queue as it was at a time.
type past struct {
	queuefs.QueueState
	at time.Time
}

// trail passes over the events of [Trail] ago, and at first over all.
func (f *feed) trail(now queuefs.QueueState, at time.Time) {
	switch {
	case f.past == nil:
		f.skip(now)
	case at.Sub(f.past.at) < Trail:
		return
	default:
		f.skip(f.past.QueueState)
	}
	f.past = &past{now, at}
	f.settle()
}

// siteOf tells one URL from another and gives none away; "" for none.
func siteOf(target string) string {
	if target == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(target))
	return hex.EncodeToString(sum[:8])
}

// openFeed finds where the feed of q goes on.
func (s *Sender) openFeed(q *queuefs.Queue) (*feed, error) {
	o, err := s.readOutbox(q.ID())
	if err != nil {
		return nil, err
	}
	var f *feed
	s.sender.View(func() { f = s.sender.Get(q.ID()) })
	state, known := q.State(), f != nil
	if !known {
		f = &feed{Queue: q.ID()}
		f.Position = position(0, state.Info.Created)
		if quiet := s.silent[q.ID()]; quiet.q == q {
			f.Position = position(quiet.seq, quiet.at)
		} else if o.readAt.IsZero() {
			f.Position = position(oldest(q), state.Info.Created)
		}
	}
	done, doneAt := f.done()
	if done > state.Seq || o.read > state.Seq {
		s.report(q.ID(), "the queue has %d events, but later ones were delivered: the home is an older copy, callbacks go on from now", state.Seq)
		done, doneAt, o = state.Seq, state.LastEvent, outbox{}
		if err := s.removeOutbox(q.ID()); err != nil {
			return nil, err
		}
	}
	s.update(func() bool {
		f.q, f.Position, f.Next, f.Proven, f.failed = q, position(done, doneAt), time.Time{}, true, f.Failures > 0
		f.read, f.readAt, f.saved, f.met = done, doneAt, o.read, false
		if o.read > done {
			f.read, f.readAt = o.read, o.readAt
			for _, c := range o.changes {
				if c.seq > done {
					f.waiting.add(c)
				}
			}
		}
		if !known {
			s.sender.Put(f)
		}
		return true
	})
	return f, nil
}

// oldest returns the event before the first one of the journal.
func oldest(q *queuefs.Queue) queuefs.Seq {
	return queuefs.Seq(sort.Search(int(q.Seq()), func(n int) bool {
		_, err := q.Events(queuefs.Seq(n), 1)
		return !errors.Is(err, queuefs.ErrGone)
	}))
}

// catchUp takes up a changed callback and reads the new events. Without a legible URL the
// changes wait, since the journal is not kept for one queue.
func (s *Sender) catchUp(f *feed) error {
	to, err := f.q.Callback()
	if f.lost = err; err != nil {
		s.lost[f.Queue] = f
		s.update(func() bool { f.url = ""; return false })
		return s.readOn(f)
	}
	delete(s.lost, f.Queue)
	if f.met && to == f.url && f.read == f.q.Seq() {
		return nil
	}
	now := f.q.State()
	lost, idle, passes := 0, false, s.Idle()
	s.update(func() (changed bool) {
		f.url = to
		if site := siteOf(to); site != f.Site {
			if changed = true; to == "" {
				lost = f.waiting.len()
			}
			if f.Site == "" || f.Stopped {
				f.settle() // it begins here
			}
			f.Site, f.failed = site, false
			f.Reset()
		}
		switch idle = to == "" || f.Stopped || passes; {
		case idle && passes:
			f.trail(now, s.Now())
			changed = true
		case idle:
			f.skip(now)
		default:
			f.past = nil
		}
		return changed
	})
	if lost > 0 {
		s.report(f.Queue, "the queue has no callback any more, %d changes were not delivered", lost)
	}
	f.met = true
	if passes && f.read < now.Seq {
		s.changes.again(f.q)
	}
	if idle {
		return nil
	}
	return s.readOn(f)
}

// readOn reads the events after the last one read.
func (s *Sender) readOn(f *feed) error {
	for f.read < f.q.Seq() {
		events, err := f.q.Events(f.read, 0)
		s.sender.View(func() {
			for i := range events {
				e := &events[i]
				if e.Job != 0 { // else it is of the properties of the queue
					f.waiting.add(change{e.Seq, e.Time, e.Kind, e.Job})
				}
				f.read, f.readAt = e.Seq, e.Time
			}
		})
		if errors.Is(err, queuefs.ErrGone) {
			err = s.rediscover(f)
		}
		if err == nil {
			err = s.limit(f)
		}
		if err != nil {
			return err
		}
	}
	s.update(f.settle)
	return nil
}

// limit sets the oldest changes aside if too many wait, a tenth at a time and
// not one at every event.
func (s *Sender) limit(f *feed) error {
	var oldest []change
	s.sender.View(func() {
		if n := f.waiting.len(); n > s.MaxWaiting {
			oldest = f.waiting.all()[:n-s.MaxWaiting+s.MaxWaiting/10]
		}
	})
	return s.kill(f, oldest, "too many changes waited")
}

// rediscover finds the jobs with changes since the last event read in the
// index, after their events have left the journal.
func (s *Sender) rediscover(f *feed) error {
	// Before the look at the jobs: later changes are in the journal again.
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
	lost := len(entries) - min(len(entries), s.MaxWaiting)
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
			changes = append(changes, change{seq: j.Seq, at: e.File.Modified, kind: kindOf(&j), job: e.Job})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	s.report(f.Queue, "the journal has lost the events after number %d and before %d: %d changed jobs are delivered, %d others and all culled ones are not",
		f.read, state.Seq+1, len(changes), lost)
	s.sender.View(func() {
		for _, c := range changes {
			f.waiting.add(c)
		}
		f.read, f.readAt = state.Seq, state.LastEvent
	})
	return nil
}

// kindOf returns the kind of the event behind the status of a job.
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
