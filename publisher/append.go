package publisher

import (
	"errors"
	"os"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// append adds the entries of events to the open list. They count when they are in
// the file.
func (s *set) append(events []queuefs.Event, buf *[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &appender{set: s, at: s.at, buf: (*buf)[:0]}
	err := w.add(events)
	w.end()
	*buf = w.buf
	return s.mend(err)
}

// fits reports whether the open list takes n more entries of an event: it has
// space, and is young enough. A list without entries takes any event.
func (s *set) fits(l *store.OpenList, n, size int, at time.Time) bool {
	switch {
	case l.Entries == 0:
		return true
	case l.Entries+n > s.p.MaxEntries, l.Length+int64(size) > s.limit():
		return false
	}
	return s.p.Period == 0 || at.Sub(l.Since) < s.p.Period
}

// An appender gathers entries for the open list. s.mu is held.
type appender struct {
	*set
	at   store.OpenList // the open list when buf is written
	buf  []byte         // entries not yet in the file
	file *os.File
}

func (w *appender) add(events []queuefs.Event) error {
	first := w.q.State().Before + 1
	for i := range events {
		ev := &events[i]
		if ev.Seq <= w.at.Read {
			continue
		}
		start := len(w.buf)
		n := w.entries(ev, ev.Seq == first)
		size := len(w.buf) - start
		if n > 0 && !w.fits(&w.at, n, size, ev.Time) {
			if err := w.turn(start); err != nil {
				return err
			}
		}
		w.at.Add(ev, n, size)
	}
	return w.write()
}

// entries appends the entries of an event to buf, and returns their number.
func (w *appender) entries(ev *queuefs.Event, first bool) (n int) {
	if !first || w.kind != names.Replica {
		w.buf, n = w.render.Changed(w.buf, w.kind, ev)
		return n
	}
	if ev.Job == 0 {
		w.buf = w.render.Begun(w.buf, ev, &ev.File)
		return 1
	}
	// If the file has changed since the event, an event of its own follows.
	_, facts := w.q.InfoFile()
	w.buf, n = w.render.Changed(w.render.Begun(w.buf, ev, &facts), w.kind, ev)
	return n + 1
}

// turn closes the open list before the entries from start on in buf; they begin
// the next one.
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
	w.at, w.buf = w.set.at, append(w.buf, entries...)
	return nil
}

// write appends the gathered entries to the file of the open list; then they
// count. It first cuts off the rest of a failed write, or of writes after the
// last checkpoint before a crash.
func (w *appender) write() error {
	if len(w.buf) > 0 {
		if w.file == nil {
			d, err := w.makeDir()
			if err != nil {
				return err
			}
			defer d.Close()
			if w.file, err = w.openAppend(d); err != nil {
				return err
			}
		}
		if err := w.text.Write(w.file, w.buf); err != nil {
			return err
		}
	}
	w.set.at, w.buf = w.at, w.buf[:0]
	return nil
}

// openAppend opens the file of the open list to append entries. The entries there are
// verified unless the file is as it was left. s.mu is held.
func (s *set) openAppend(d *durable.Dir) (*os.File, error) {
	name := names.EntriesFile(s.at.First)
	file, err := d.Append(name)
	if err != nil {
		return nil, lostList(err)
	}
	if err := s.prepare(d, file); err != nil {
		file.Close()
		return nil, lostList(err)
	}
	return file, nil
}

// prepare verifies the entries in a file to append to, and cuts off what is after them.
func (s *set) prepare(d *durable.Dir, file *os.File) error {
	if s.at.Length > 0 && !s.text.IsLeft(file) {
		in, err := d.Open(names.EntriesFile(s.at.First))
		if err != nil {
			return err
		}
		defer in.Close()
		if err := s.text.Check(in, s.at.Length); err != nil {
			return err
		}
	}
	if err := store.Cut(file, s.at.Length); err != nil { // a verified file may have more
		return err
	}
	s.text.Leave(file)
	return nil
}

func (w *appender) end() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// closeOld closes the open list when its period is over.
func (s *set) closeOld() error {
	return s.closeIf(func() bool { return s.age(s.p.Now()) > s.p.Period })
}

// An age is when the open list from event first on got its first entry.
type age struct {
	first queuefs.Seq
	since time.Time // by the clock of this process
}

// age returns for how long the open list has had entries. Dates of events do not
// count: after a clock that was ahead they lie in the future. s.mu is held.
func (s *set) age(now time.Time) time.Duration {
	if s.began.first != s.at.First {
		s.began = age{s.at.First, now.Add(-max(0, now.Sub(s.at.Since)))}
	}
	if now.Before(s.began.since) {
		s.began.since = now // the clock was set back
	}
	return now.Sub(s.began.since)
}

// closeIf closes the open list if it has entries and may is true; may is called with
// mu held.
func (s *set) closeIf(may func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Entries == 0 || !may() {
		return nil
	}
	return s.mend(s.close())
}

// skip closes the open list before a gap in the events; next begins after it.
func (s *set) skip(next store.OpenList) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Read >= next.Read {
		return nil
	}
	why := ""
	if s.p.cursor.None() {
		why = ", and there is no " + store.CursorFile + " to say where the list was"
	}
	s.p.Reportf(s.path, "events %d to %d are gone%s; a new Change List begins", s.at.Read+1, next.Read, why)
	if s.at.Entries > 0 {
		if err := s.mend(s.close()); err != nil {
			return err
		}
	}
	if s.at.Read < next.Read { // else the set began anew
		s.begin(next)
	}
	return nil
}

// close closes the open list after the last event read. The list has entries. The
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
	sp, err := s.syncEntries(d)
	if err != nil {
		return err
	}
	if err := s.final(s.Lists.Add(s.p.store, d, sp)); err != nil {
		return err
	}
	s.begin(store.NewOpenList(s.at.Read, s.at.Until))
	return nil
}

// begin makes at the open list; it has no entries yet. s.mu is held.
func (s *set) begin(at store.OpenList) { s.at, s.text = at, store.Growing{} }

// final notes a failed sync: the files of the set are written again before anything
// else is.
func (s *set) final(err error) error {
	if errors.Is(err, queuefs.ErrFailed) {
		s.unsure = true
		return s.p.fail(err)
	}
	return err
}

// syncEntries puts the entries of the open list on stable storage, and returns the list
// as it is closed.
func (s *set) syncEntries(d *durable.Dir) (store.Span, error) {
	sp := s.at.Span()
	file, err := s.openAppend(d)
	if err != nil {
		return sp, err
	}
	defer file.Close()
	if err := errors.Join(d.SyncFile(file), d.Sync()); err != nil {
		return sp, s.final(errors.Join(queuefs.ErrFailed, err))
	}
	sp.SHA256 = s.text.Word()
	if sum, ok := sp.Sum(); ok {
		s.p.store.Verified.Trust(file, sum)
	}
	if s.Lists.HasFile() {
		return sp, nil
	}
	// Before the first line sync the directories above too: an attempt to make
	// them may have failed half way.
	return sp, s.final(s.p.store.SyncDirs(s.q.ID()))
}
