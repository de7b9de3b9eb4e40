package publisher

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// A queue made of a copy has the events of its original up to some number, and its journal
// has none of them. If the copy had the changes, the queue inherits these: its Change Lists
// begin with them, so that followers of the original go on with the queue.

// An heir is a queue with inherited events before those of its journal.
type heir struct {
	Queue
	*set.Inherited
	store *set.Store
	dir   string // of the queue, at the original

	mu   sync.Mutex
	in   *set.InheritedReader // nil: not open
	at   job.Seq              // last event read from in
	next *sitemap.Entry       // the first entry of the event after it
	page int                  // of the engine, jobs has its jobs
	jobs []ledger.Entry
}

// inherits returns the queue with the events it inherits; nil if it has none, or if they are
// in its lists, at.
func (p *Publisher) inherits(q Queue, at *[names.Sets]set.Line) *heir {
	h := p.src.Store.Inherited(q.ID())
	if h == nil {
		return nil
	}
	if at != nil && at[names.Pending].Open.Read >= h.Last && at[names.Replica].Open.Read >= h.Last {
		if err := p.src.Store.DropInherited(q.ID()); err != nil {
			p.src.Reportf(q.ID(), "changes of the original, which are in its lists: %v", err)
		}
		return nil
	}
	if q.State().Before >= h.First || q.Seq() < h.Last {
		p.src.Reportf(q.ID(), "has the changes of another queue, events %d to %d; they are not published", h.First, h.Last)
		return nil
	}
	site := names.Site(strings.TrimSuffix(h.Base, "/"))
	return &heir{Queue: q, Inherited: h, store: p.src.Store, dir: site.Queue(q.ID()).Dir}
}

// State is that of the queue, with the beginning of its events.
func (h *heir) State() ledger.State {
	st := h.Queue.State()
	st.Before, st.Since = h.First-1, h.From
	return st
}

// has reports whether the event after one is inherited.
func (h *heir) has(after job.Seq) bool { return h != nil && after+1 >= h.First && after < h.Last }

// events returns up to max events after one. Numbers in no list are those of phases. If the
// events are lost the error is [ledger.ErrGone].
func (h *heir) events(after job.Seq, max int) (all []job.Event, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, err = h.read(after, max)
	if err == nil && (len(all) == 0 || all[len(all)-1].Seq < h.Last) {
		return all, nil
	}
	h.close()
	if set.Unusable(err) || errors.Is(err, io.EOF) {
		h.store.Report(h.ID(), "the changes of the original after event %d: %v", h.at, err)
		err = ledger.ErrGone
	}
	return all, err
}

func (h *heir) close() {
	if h.in != nil {
		h.in.Close()
		h.in, h.next = nil, nil
	}
}

// seek brings the reader to the event after one.
func (h *heir) seek(after job.Seq) (err error) {
	if h.in != nil && h.at > after {
		h.close()
	}
	if h.in == nil {
		if h.in, err = h.store.ReadInherited(h.ID()); err != nil {
			return err
		}
		h.at = h.First - 1
		if err := h.step(); err != nil {
			return err
		}
	}
	for job.Seq(h.next.Seq) <= after {
		if err := h.step(); err != nil {
			return err
		}
	}
	h.at = after
	return nil
}

// step reads the next entry.
func (h *heir) step() error {
	e, err := h.in.Read()
	if err != nil && err != io.EOF {
		err = set.Damaged("%w", err) // it was whole when the queue was opened
	}
	if err != nil {
		return err
	}
	h.next = &e
	return nil
}

func (h *heir) read(after job.Seq, max int) (all []job.Event, err error) {
	if err := h.seek(after); err != nil {
		return nil, err
	}
	for len(all) < max && h.at < h.Last {
		ev, err := h.event()
		if err != nil {
			return all, err
		}
		for seq := h.at + 1; seq < ev.Seq; seq++ {
			all = append(all, job.Event{Seq: seq, Time: ev.Time, Kind: job.Phase})
		}
		all = append(all, ev)
		h.at = ev.Seq
	}
	return all, nil
}

// event reads the entries of the next event.
func (h *heir) event() (ev job.Event, err error) {
	if ev, err = names.EventOf(h.next); err != nil || ev.Seq <= h.at || ev.Time.Before(time.Unix(0, 0)) {
		return ev, set.Damaged("event %d after event %d: %w", ev.Seq, h.at, err)
	}
	for job.Seq(h.next.Seq) == ev.Seq {
		if err := names.Take(&ev, h.dir, h.next); err != nil {
			return ev, set.Damaged("event %d: %s: %w", ev.Seq, h.next.Loc, err)
		}
		if err = h.step(); err == io.EOF && ev.Seq == h.Last {
			break
		}
		if err != nil {
			return ev, err
		}
	}
	if ev.To == job.Pending && ev.From != 0 { // no entry of the set Replica has its payload
		ev.Payload = h.payload(ev.Job)
	}
	return ev, nil
}

// payload returns the facts of a payload; none of a job that is gone by now.
func (h *heir) payload(id job.ID) job.Facts {
	if n := int(id / index.PageJobs); h.jobs == nil || n != h.page {
		h.page = n
		h.jobs, _, _ = h.Page(n, h.jobs[:0])
	}
	for i := range h.jobs {
		if h.jobs[i].Job == id {
			return h.jobs[i].Payload
		}
	}
	return job.Facts{}
}
