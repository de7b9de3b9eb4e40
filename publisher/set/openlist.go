package set

import (
	"errors"
	"os"
	"slices"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// EventBatch is how many events are read at a time, with up to PartBytes of parts.
const (
	EventBatch = 512
	PartBytes  = 1 << 20
)

// Append adds the entries of events to the open list, and their files to its package. The
// entries count when they are in the file.
func (s *Set) Append(changes []Change, m *Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.buf, m.packed = m.buf[:0], m.packed[:0]
	w := &appender{Set: s, Memory: m, at: s.at}
	w.choose()
	err := w.add(changes)
	w.end()
	s.render.File = nil
	return s.mend(err)
}

// fits reports whether the open list takes n more entries of an event: it has
// space, and so has its package. A list without entries takes any event.
func (s *Set) fits(l *store.OpenList, n, size int, octets int64) bool {
	return l.Entries == 0 ||
		l.Entries+n <= s.MaxEntries && l.Length+int64(size) <= s.limit() && l.Pack.Octets+octets <= s.MaxPackage
}

// An appender gathers entries for the open list, and files for its package. s.mu is held.
type appender struct {
	*Set
	*Memory
	at         store.OpenList // the open list when buf is written
	file, pack *os.File
}

func (w *appender) add(changes []Change) error {
	first := w.Queue.State().Before + 1
	for i := range changes {
		ev := &changes[i].Event
		if ev.Seq <= w.at.Read {
			continue
		}
		start := len(w.buf)
		w.came = w.came[:0]
		var n int
		w.buf, n = w.entries(&w.render, w.buf, ev, ev.Seq == first)
		size := len(w.buf) - start
		if n > 0 && !w.fits(&w.at, n, size, w.octets()) {
			if err := w.turn(start); err != nil {
				return err
			}
		}
		w.at.Add(ev, n, size)
		w.grow(&changes[i])
		if max(len(w.buf), len(w.packed)) >= mostGathered {
			if err := w.write(); err != nil {
				return err
			}
		}
	}
	return w.write()
}

// entries appends the entries of an event to dst, and returns their number.
func (s *Set) entries(render *entries.Renderer, dst []byte, ev *queuefs.Event, first bool) (_ []byte, n int) {
	if !first || s.Kind != names.Replica {
		return render.Changed(dst, s.Kind, ev)
	}
	if ev.Job == 0 {
		return render.Begun(dst, ev, &ev.File), 1
	}
	// If the file has changed since the event, an event of its own follows.
	_, facts := s.Queue.InfoFile()
	dst, n = render.Changed(render.Begun(dst, ev, &facts), s.Kind, ev)
	return dst, n + 1
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
	w.at, w.buf = w.Set.at, append(w.buf, entries...)
	return nil
}

// write appends the gathered entries to the file of the open list; then they count, and the
// gathered files to its package. It first cuts off the rest of a failed write, or of writes
// after the last checkpoint before a crash.
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
	w.writePacked()
	w.Set.at, w.buf = w.at, w.buf[:0]
	return nil
}

// openAppend opens the file of the open list to append entries. The entries there are
// verified unless the file is as it was left. s.mu is held.
func (s *Set) openAppend(d *durable.Dir) (*os.File, error) {
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
func (s *Set) prepare(d *durable.Dir, file *os.File) error {
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
	for _, f := range []**os.File{&w.file, &w.pack} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
}

// CloseList closes the open list if it has entries.
func (s *Set) CloseList() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Entries == 0 {
		return nil
	}
	return s.mend(s.close())
}

// Skip closes the open list before a gap in the events; next begins after it, and why
// ends the report.
func (s *Set) Skip(next store.OpenList, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Read >= next.Read {
		return nil
	}
	s.Reportf(s.Path, "events %d to %d are gone%s; a new Change List begins", s.at.Read+1, next.Read, why)
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
func (s *Set) close() error {
	if err := s.Failure(); err != nil {
		return err
	}
	d, err := s.dir()
	if err != nil {
		return err
	}
	defer d.Close()
	g, grows, err := s.syncPackage(d)
	if err != nil {
		return err
	}
	sp, err := s.syncEntries(d)
	if err != nil {
		return err
	}
	if err := s.final(s.files.Lists.Add(s.Store, d, sp)); err != nil {
		return err
	}
	if grows {
		s.pack.keep(sp.First, g)
	}
	s.begin(store.NewOpenList(s.at.Read, s.at.Until))
	return nil
}

// begin makes at the open list; it has no entries yet. s.mu is held.
func (s *Set) begin(at store.OpenList) {
	s.pack.dropTail()
	s.at, s.text, s.pack.file, s.sent = at, store.Growing{}, store.Growing{}, sent{}
}

// final notes a failed sync: the files of the set are written again before anything
// else is.
func (s *Set) final(err error) error {
	if errors.Is(err, queuefs.ErrFailed) {
		s.unsure = true
		return s.fail(err)
	}
	return err
}

// syncEntries puts the entries of the open list on stable storage, and returns the list
// as it is closed.
func (s *Set) syncEntries(d *durable.Dir) (store.Span, error) {
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
	s.Store.Verified.Trust(file, sp.Sum())
	if s.files.Lists.HasFile() {
		return sp, nil
	}
	// Before the first line sync the directories above too: an attempt to make
	// them may have failed half way.
	return sp, s.final(s.Store.SyncDirs(s.Queue.ID()))
}
