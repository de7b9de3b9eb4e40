package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A feed turns the events of one queue into Change Lists, for both sets.
type feed struct {
	p     *Publisher
	q     Queue
	names *names
	born  string       // when the queue was made, in entity tags
	pages [numSets]int // engine pages in a page of the Resource List

	// The most octets that a job adds to a Resource List.
	bounds [numSets]int

	mu     sync.Mutex
	sets   [numSets]changes
	render renderer
	buf    []byte // for entries on their way to the file; nil when idle
}

// changes are the Change Lists of a set: the open one, whose entries stand in
// its file up to mark.length, and the closed ones.
type changes struct {
	set      Set
	mark     mark
	lists    spans
	packages spans
	dumped   queuefs.Seq // packages were made, or cannot be, up to this event
	kept     []*edition  // Resource Dumps, oldest first; the last one is current
	tried    time.Time   // when making one ended last, well or not; zero for not since the start
	wanted   queuefs.Seq // one of this event or a later one is to be made now; 0: none is
	making   bool        // one is being made
	unswept  bool        // there may be files that are kept no longer
	forLists wait        // of the packages of a list
	forDump  wait        // of a Resource Dump
	life     int         // how often the set began anew
}

// eventBatch is how many events are read at a time.
const eventBatch = 512

// behind reports whether the queue has events not yet read.
func (f *feed) behind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read() < f.q.Seq()
}

// read returns the last event that both sets have read; f.mu is held.
func (f *feed) read() queuefs.Seq {
	return min(f.sets[Pending].mark.seq, f.sets[Replica].mark.seq)
}

// catchUp reads all events committed before the call. An error leaves the
// lists true up to some earlier event; the next call goes on from there.
func (f *feed) catchUp() error {
	to := f.q.Seq()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read() >= to {
		return nil
	}
	if err := f.p.failure(); err != nil {
		return err
	}
	defer func() { f.buf = nil }()
	for f.read() < to {
		events, err := f.q.Events(f.read(), eventBatch)
		if errors.Is(err, queuefs.ErrGone) {
			return f.skip()
		}
		if err != nil {
			return err
		}
		if len(events) == 0 || events[0].Seq != f.read()+1 {
			return fmt.Errorf("events after %d of %d are missing", f.read(), to)
		}
		for s := range f.sets {
			c := &f.sets[s]
			if err := f.mend(c, f.append(c, events)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastChange returns the time of the last event that a document may tell of, of
// the queue's creation if there is none.
func (f *feed) lastChange() time.Time {
	if f.catchUp() != nil {
		return f.orCreated(f.q.State().LastEvent) // or of a later event
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.orCreated(f.sets[Replica].mark.at)
}

// append adds the entries of events to the open list of a set. The mark moves
// when they are in the file.
func (f *feed) append(c *changes, events []queuefs.Event) error {
	w := &appender{f: f, c: c, mark: c.mark, buf: f.buf[:0]}
	defer func() {
		f.buf = w.buf
		w.end()
	}()
	for i := range events {
		ev := &events[i]
		if ev.Seq <= w.mark.seq {
			continue
		}
		start := len(w.buf)
		var n int
		w.buf, n = f.render.changed(w.buf, c.set, ev)
		size := len(w.buf) - start
		if n > 0 && !f.fits(&w.mark, n, size, ev.Time) {
			if err := w.turn(start); err != nil {
				return err
			}
		}
		w.mark.add(ev, n, size)
	}
	return w.write()
}

// fits reports whether the open list has room for n entries of an event, and
// is still young enough for it. A list without entries takes any event.
func (f *feed) fits(m *mark, n, size int, at time.Time) bool {
	switch {
	case m.entries == 0:
		return true
	case m.entries+n > f.p.MaxEntries, m.length+int64(size) > f.room():
		return false
	}
	return f.p.Period == 0 || at.Sub(m.since) < f.p.Period
}

// add moves the mark over an event with n entries. The time stays over one that
// no document tells of in any form, lest those be another that tell it.
func (m *mark) add(ev *queuefs.Event, n, size int) {
	if m.seq = ev.Seq; ev.Kind == queuefs.Phase {
		return
	}
	m.at = ev.Time
	if n == 0 {
		return
	}
	if m.entries == 0 {
		m.since = ev.Time
	}
	m.last = ev.Time
	m.entries += n
	m.length += int64(size)
}

// An appender gathers entries for the open list of a set.
type appender struct {
	f    *feed
	c    *changes
	mark mark   // where the set will stand when buf is written
	buf  []byte // entries not yet in the file
	file *os.File
}

// turn closes the open list before the entries that begin at start in buf,
// which begin the next one.
func (w *appender) turn(start int) error {
	entries := slices.Clone(w.buf[start:])
	w.buf = w.buf[:start]
	if err := w.write(); err != nil {
		return err
	}
	w.end()
	if err := w.f.close(w.c); err != nil {
		return err
	}
	w.mark, w.buf = w.c.mark, append(w.buf, entries...)
	return nil
}

// write puts what was gathered into the file of the open list, behind what
// counts there, and moves the mark.
func (w *appender) write() error {
	if len(w.buf) > 0 {
		if err := w.begin(); err != nil {
			return err
		}
		if _, err := w.file.Write(w.buf); err != nil {
			return err
		}
	}
	w.c.mark, w.buf = w.mark, w.buf[:0]
	return nil
}

// begin opens the file of the open list and cuts off what does not count: the
// rest of a failed write, or what was written after the last checkpoint
// before a crash.
func (w *appender) begin() error {
	if w.file != nil {
		return nil
	}
	d, err := w.f.dir(w.c.set, true)
	if err != nil {
		return err
	}
	defer d.Close()
	length := w.c.mark.length
	if w.file, err = d.Append(entriesFile(w.c.mark.first)); err != nil {
		return err
	}
	return cut(w.file, length)
}

// cut cuts off what does not count, and says so if there is less.
func cut(file *os.File, length int64) error {
	st, err := file.Stat()
	switch {
	case err != nil:
		return err
	case st.Size() < length:
		return damage{fmt.Errorf("%s has %d octets of %d", file.Name(), st.Size(), length)}
	case st.Size() > length:
		return file.Truncate(length)
	}
	return nil
}

func (w *appender) end() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// dir opens the directory of a set, making it if need be.
func (f *feed) dir(s Set, create bool) (*durable.Dir, error) {
	d, err := f.path(s, (*durable.Dir).Sub)
	if create && errors.Is(err, fs.ErrNotExist) {
		return f.path(s, (*durable.Dir).MakeSub)
	}
	return d, err
}

func (f *feed) path(s Set, sub func(*durable.Dir, string) (*durable.Dir, error)) (*durable.Dir, error) {
	q, err := sub(f.p.root(), f.q.ID())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	return sub(q, s.String())
}

// closeOld closes the open lists whose first entry came before the given time.
func (f *feed) closeOld(before time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sets {
		if c := &f.sets[s]; c.mark.entries > 0 && c.mark.since.Before(before) {
			if err := f.mend(c, f.close(c)); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the open list of a set, which has entries, after the last
// event read; f.mu is held. The list is closed at the instant its line is on
// stable storage. A crash before that leaves it open; one after it, with a
// cursor that still speaks of it as open, is settled by the line.
func (f *feed) close(c *changes) error {
	if err := f.p.failure(); err != nil {
		return err
	}
	d, err := f.dir(c.set, false)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := f.settle(d, c); err != nil {
		return err
	}
	m := &c.mark
	sp := span{first: m.first, last: m.seq, from: m.from, until: m.at, entries: m.entries, length: m.length, sha256: "-"}
	if err := c.lists.add(d, f.p.stamp(), sp); err != nil {
		if errors.Is(err, queuefs.ErrFailed) {
			return f.p.fail(err)
		}
		return err
	}
	c.mark = beginning(m.seq, m.at)
	return nil
}

// settle puts the entries of a list that will never change on stable storage.
func (f *feed) settle(d *durable.Dir, c *changes) error {
	file, err := d.Append(entriesFile(c.mark.first))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := cut(file, c.mark.length); err != nil {
		return err
	}
	if err := errors.Join(d.SyncFile(file), d.Sync()); err != nil {
		return f.p.fail(err)
	}
	if c.lists.length > 0 {
		return nil
	}
	// The first time, see that the way there is on stable storage: an attempt
	// to make the directories may have failed half way.
	root := f.p.root()
	q, err := root.Sub(f.q.ID())
	if err != nil {
		return err
	}
	defer q.Close()
	if err := errors.Join(q.Sync(), root.Sync()); err != nil {
		return f.p.fail(err)
	}
	return nil
}

// head returns the head of a Change List.
func (f *feed) head(s Set, from, until time.Time) sitemap.Head {
	docs := f.names.docs[s]
	return sitemap.Head{
		Capability: sitemap.ChangeList, From: from, Until: until,
		Links: []sitemap.Link{
			{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()},
			{Rel: sitemap.RelIndex, Href: docs + docName{kind: changeIndex}.String()},
		},
	}
}
