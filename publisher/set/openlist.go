package set

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// EventBatch is how many events are read at a time. A package reads them with up to PartBytes
// of parts.
const (
	EventBatch = 512
	PartBytes  = 1 << 20
)

// Append adds the entries of events to the open list. They count when they are in the file.
func (s *Set) Append(events []job.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	w := &appender{Set: s, buf: (*buf)[:0], at: s.at}
	err := w.add(events)
	w.end()
	return s.mend(err)
}

// mostGathered is the number of gathered bytes to be written at once. Smaller writes cost
// the file system more, and greater ones memory.
const mostGathered = 256 << 10

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, mostGathered*5/4)
	return &b
}}

// logged is how many bytes of files a list with leastLogged entries has at most: the journal
// still has them when its package is made.
const (
	logged      = 64 << 20
	leastLogged = 1000
)

// fits reports whether the open list takes n more entries of an event with so many bytes of
// files. A list without entries takes any event.
func (s *Set) fits(l *OpenList, n, size int, files int64) bool {
	return l.Entries == 0 ||
		l.Entries+n <= s.MaxEntries && l.Length+int64(size) <= s.limit() && l.Files+files <= s.MaxPackage &&
			(l.Entries < leastLogged || l.Files+files <= logged)
}

// An appender gathers entries for the open list. mu is held.
type appender struct {
	*Set
	buf  []byte   // entries not yet in the file
	at   OpenList // the open list when buf is written
	file *os.File
}

func (w *appender) add(events []job.Event) error {
	first := w.Queue.State().Before + 1
	for i := range events {
		ev := &events[i]
		if ev.Seq <= w.at.Read {
			continue
		}
		start := len(w.buf)
		w.render.Files = 0
		var n int
		w.buf, n = w.entries(&w.render, w.buf, ev, ev.Seq == first)
		size := len(w.buf) - start
		if n > 0 && !w.fits(&w.at, n, size, w.render.Files) {
			if err := w.turn(start); err != nil {
				return err
			}
		}
		w.at.Add(ev, n, size)
		w.at.Files += w.render.Files
		if len(w.buf) >= mostGathered {
			if err := w.write(); err != nil {
				return err
			}
		}
	}
	return w.write()
}

// entries appends the entries of an event to dst, and returns their number.
func (s *Set) entries(render *names.Renderer, dst []byte, ev *job.Event, first bool) (_ []byte, n int) {
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

// write appends the gathered entries to the file of the open list; then they count. It first
// cuts off the rest of a failed write, or of writes after the last checkpoint before a crash.
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
	w.Set.at, w.buf = w.at, w.buf[:0]
	return nil
}

// openAppend opens the file of the open list to append entries. The entries there are
// verified unless the file is as it was left. mu is held.
func (s *Set) openAppend(d *durable.Dir) (*os.File, error) {
	name := names.EntriesFile(s.at.First)
	file, err := d.Append(name)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(d, file); err != nil {
		file.Close()
		return nil, err
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
	if err := Cut(file, s.at.Length); err != nil { // a verified file may have more
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

// CloseList closes the open list if it has entries.
func (s *Set) CloseList() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Entries == 0 {
		return nil
	}
	return s.mend(s.close())
}

// Skip begins the set anew after a gap in the events; why ends the report.
func (s *Set) Skip(next job.Seq, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.Read >= next {
		return nil
	}
	return s.mend(Damaged("events %d to %d are gone%s", s.at.Read+1, next, why))
}

// close closes the open list after the last event read. The list has entries. It is closed at
// the instant the inventory with it is on stable storage: a crash before leaves it open, and
// after it the inventory counts, whatever the cursor says. mu is held.
func (s *Set) close() error {
	if err := s.Failure(); err != nil {
		return err
	}
	d, err := s.dir()
	if err != nil {
		return err
	}
	defer d.Close()
	sp := s.at.Span()
	file, err := s.openAppend(d)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := d.SyncFile(file); err != nil {
		return err
	}
	if len(s.files.Lists) == 0 {
		// Nobody has synced the directories above yet.
		if err := s.Store.SyncDirs(s.Queue.ID()); err != nil {
			return err
		}
	}
	sp.SHA256 = s.text.Word()
	files := s.files
	files.Lists = append(slices.Clip(files.Lists), sp)
	if err := s.write(d, files); err != nil {
		return err
	}
	s.begin(NewOpenList(s.at.Read, s.at.Until))
	return nil
}

// hasDumps reports whether the set has packages and Resource Dumps.
func (s *Set) hasDumps() bool { return s.Dumped(s.Queue, s.Kind) }

// Dumped reports whether a set of a queue has packages and Resource Dumps: the queue says it,
// or the Source.
func (s *Source) Dumped(q Queue, kind names.Set) bool {
	sets := cmp.Or(q.State().Info.Dumps, s.Dumps)
	return sets == "" || slices.Contains(strings.Fields(sets), kind.String())
}

// Holds returns the first event whose record the set wants for a package, 0 for none.
func (s *Set) Holds() job.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasDumps() {
		return 0
	}
	if lists := s.unpacked(); len(lists) > 0 {
		return lists[0].First
	}
	if s.at.Entries == 0 {
		return 0
	}
	return s.at.First
}
