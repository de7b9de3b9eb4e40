package publisher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// append adds the entries of events to the open list. The mark moves when they
// are in the file.
func (s *set) append(events []queuefs.Event, buf *[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &appender{set: s, mark: s.mark, buf: (*buf)[:0]}
	err := w.add(events)
	w.end()
	*buf = w.buf
	return s.mend(err)
}

// fits reports whether the open list takes n more entries of an event: it has
// space, and is young enough. A list without entries takes any event.
func (s *set) fits(m *mark, n, size int, at time.Time) bool {
	switch {
	case m.entries == 0:
		return true
	case m.entries+n > s.p.MaxEntries, m.length+int64(size) > s.limit():
		return false
	}
	return s.p.Period == 0 || at.Sub(m.since) < s.p.Period
}

// An appender gathers entries for the open list. s.mu is held.
type appender struct {
	*set
	mark mark   // where the set will stand when buf is written
	buf  []byte // entries not yet in the file
	file *os.File
}

func (w *appender) add(events []queuefs.Event) error {
	for i := range events {
		ev := &events[i]
		if ev.Seq <= w.mark.seq {
			continue
		}
		start := len(w.buf)
		var n int
		w.buf, n = w.render.changed(w.buf, w.kind, ev)
		size := len(w.buf) - start
		if n > 0 && !w.fits(&w.mark, n, size, ev.Time) {
			if err := w.turn(start); err != nil {
				return err
			}
		}
		w.mark.add(ev, n, size)
	}
	return w.write()
}

// turn closes the open list before the entries that begin at start in buf; they
// begin the next one.
func (w *appender) turn(start int) error {
	entries := slices.Clone(w.buf[start:])
	w.buf = w.buf[:start]
	if err := w.write(); err != nil {
		return err
	}
	w.end()
	if err := w.close(); err != nil {
		return err
	}
	w.mark, w.buf = w.set.mark, append(w.buf, entries...)
	return nil
}

// write appends the gathered entries to the file of the open list and moves the
// mark. It first cuts off the rest of a failed write, or of writes after the
// last checkpoint before a crash.
func (w *appender) write() error {
	if len(w.buf) > 0 {
		if w.file == nil {
			d, err := w.makeDir()
			if err != nil {
				return err
			}
			defer d.Close()
			if w.file, err = d.Append(entriesFile(w.set.mark.first)); err != nil {
				return err
			}
			if err := cut(w.file, w.set.mark.length); err != nil {
				return err
			}
		}
		if _, err := w.file.Write(w.buf); err != nil {
			return err
		}
	}
	w.set.mark, w.buf = w.mark, w.buf[:0]
	return nil
}

func (w *appender) end() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// cut cuts a file to a length. A shorter one is damaged.
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

// closeOld closes the open list if its first entry came before a time.
func (s *set) closeOld(before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark.entries == 0 || !s.mark.since.Before(before) {
		return nil
	}
	return s.mend(s.close())
}

// skip closes the open list before a gap in the events; next begins after it.
func (s *set) skip(next mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark.seq >= next.seq {
		return nil
	}
	s.p.report(s.path(), "events %d to %d are gone; a new Change List begins", s.mark.seq+1, next.seq)
	if s.mark.entries > 0 {
		if err := s.mend(s.close()); err != nil {
			return err
		}
	}
	s.mark = next
	return nil
}

// close closes the open list, which has entries, after the last event read. The
// list is closed at the instant its line is on stable storage: a crash before
// leaves it open, and after it the line counts, whatever the cursor says. s.mu
// is held.
func (s *set) close() error {
	if err := s.p.failure(); err != nil {
		return err
	}
	d, err := s.dir()
	if err != nil {
		return err
	}
	defer d.Close()
	if err := s.syncEntries(d); err != nil {
		return err
	}
	if err := s.addLine(d, &s.lists, s.mark.span()); err != nil {
		return err
	}
	s.mark = beginning(s.mark.seq, s.mark.at)
	return nil
}

// addLine adds a line to a file of spans. A failed sync is final.
func (s *set) addLine(d *durable.Dir, to *spans, sp span) error {
	err := to.add(d, s.p.stamp(), sp)
	if errors.Is(err, queuefs.ErrFailed) {
		return s.p.fail(err)
	}
	return err
}

// syncEntries puts the entries of the open list on stable storage.
func (s *set) syncEntries(d *durable.Dir) error {
	file, err := d.Append(entriesFile(s.mark.first))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := cut(file, s.mark.length); err != nil {
		return err
	}
	err = errors.Join(d.SyncFile(file), d.Sync())
	if err == nil && s.lists.length == 0 {
		// Before the first line sync the directories above too: an attempt to make
		// them may have failed half way.
		root := s.p.store.root()
		q, e := root.Sub(s.q.ID())
		if e != nil {
			return e
		}
		defer q.Close()
		err = errors.Join(q.Sync(), root.Sync())
	}
	if err != nil {
		return s.p.fail(err)
	}
	return nil
}
