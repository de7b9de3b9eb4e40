package set

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A package grows with its Change List: the files that the entries of an event stand for
// are appended once, from the record of the event. A closed list needs nothing but the end
// of its package then; see Task.finish. Late files alone are read from the queue: at the
// end, as far as they are still there. Nothing waits for a package. If one cannot grow, on
// a full disk before anything else, it is given up, and a Task makes it from the files
// there are by then.

// packing are the growing packages of a set.
type packing struct {
	file   store.Growing // of the open list
	closed map[queuefs.Seq]grown
	tail   *tail // after a crash, until its events were followed again
}

// A grown is the growing package of a closed list, by the memory of this process.
type grown struct {
	length int64
	file   store.Growing
}

// keep remembers the package of a closed list until it is complete.
func (p *packing) keep(first queuefs.Seq, g grown) {
	if p.closed == nil {
		p.closed = make(map[queuefs.Seq]grown)
	}
	p.closed[first] = g
}

// growing returns the bytes of all growing packages. mu is held.
func (s *Set) growing() int64 {
	n := max(s.at.Pack.Length, 0)
	for _, g := range s.pack.closed {
		n += g.length
	}
	return n
}

// A Change is an event with its parts, for both sets of a queue. It is for one goroutine.
type Change struct {
	*queuefs.Journaled
	payload, text content // made by the first set to need them
}

// A content is a file as it stands in a package, once it is made.
type content struct {
	dump.Content
	ok bool
}

// A Memory is what Append needs for a moment, of one caller.
type Memory struct {
	buf    []byte  // entries not yet in the file
	packed []byte  // files not yet in the package
	came   files   // of one event
	one    content // of no Change
	tool   dump.Compressor
}

var memories = sync.Pool{New: func() any {
	const most = mostGathered * 5 / 4
	return &Memory{buf: make([]byte, 0, most), packed: make([]byte, 0, most)}
}}

// NewMemory returns a Memory. Call Free after use.
func NewMemory() *Memory { return memories.Get().(*Memory) }

// mostMemory is what a free Memory may have.
const mostMemory = 4 << 20

// mostGathered is the number of gathered bytes to be written at once. Smaller writes cost
// the file system more, and greater ones memory.
const mostGathered = 256 << 10

// Free makes the memory ready for another use.
func (m *Memory) Free() {
	m.one = content{} // with the octets of a file
	if cap(m.buf)+cap(m.packed) <= mostMemory {
		memories.Put(m)
	}
}

// A fileOf is the file of an entry.
type fileOf struct {
	names.File
	facts     queuefs.Facts
	mediaType string
}

// content makes the content of the file in c; nil if the octets are others.
func (m *Memory) content(c *content, raw []byte, f *fileOf) *dump.Content {
	if int64(len(raw)) != f.facts.Length || sha256.Sum256(raw) != f.facts.SHA256 {
		return nil
	}
	made, err := m.tool.Content(raw, f.mediaType)
	if err != nil {
		return nil
	}
	made.Keep()
	*c = content{made, true}
	return &c.Content
}

// files are those of an event, as the renderer tells of them.
type files []fileOf

func (fs *files) add(of names.File, facts *queuefs.Facts, mediaType string) {
	*fs = append(*fs, fileOf{of, *facts, mediaType})
}

// octets returns the bytes of the files of an event.
func (m *Memory) octets() (n int64) {
	for i := range m.came {
		n += m.came[i].facts.Length
	}
	return n
}

// choose decides whether a package grows with the open list: it begins with the list.
func (w *appender) choose() {
	p := &w.at.Pack
	if w.hasDumps() {
		w.render.File = w.came.add
		if w.at.Entries == 0 {
			*p = store.Package{}
		}
		return
	}
	w.came = w.came[:0]
	if p.Length > 0 {
		w.dropGrowing(w.at.First)
	}
	*p = store.Package{Length: store.NoPackage}
}

// grow adds the files of the event to the package.
func (w *appender) grow(c *Change) {
	p := &w.at.Pack
	for i := range w.came {
		f := &w.came[i]
		p.Files++
		p.Octets += f.facts.Length
		if p.Length < 0 {
			continue
		}
		content := w.contentOf(c, f)
		if content == nil {
			content = w.fromTail(p.Files, f)
		}
		if t := w.Set.pack.tail; t != nil && p.Files >= t.Last() {
			w.Set.pack.dropTail()
		}
		if content != nil {
			n := len(w.packed)
			w.packed = content.Append(w.packed, p.Files)
			p.Length += int64(len(w.packed) - n)
		}
	}
}

// contentOf returns the content of a file; nil without one: it comes late, or a later
// event has replaced it.
func (w *appender) contentOf(c *Change, f *fileOf) *dump.Content {
	switch {
	case f.Result != "":
		return w.content(&w.one, w.resultText(f), f)
	case f.Payload && c.payload.ok:
		return &c.payload.Content
	case f.Payload:
		return w.content(&c.payload, w.payloadText(c, f), f)
	case f.Job == 0 && c.Job != 0: // the first event of the queue
		text, _ := w.Queue.InfoFile()
		return w.content(&w.one, text, f)
	case c.text.ok:
		return &c.text.Content
	}
	return w.content(&c.text, c.Text, f)
}

// payloadText returns a payload from the record of its event, or a small one from its
// file; nil for a late one.
func (w *appender) payloadText(c *Change, f *fileOf) []byte {
	if c.Payload != nil || f.facts.Length > dump.Late {
		return c.Payload
	}
	in, err := w.Queue.Payload(f.Job)
	if err != nil {
		return nil
	}
	return readText(in, f.facts.Length)
}

// resultText returns a result from its file; nil for a late one.
func (w *appender) resultText(f *fileOf) []byte {
	if f.facts.Length > maxCopied {
		return nil
	}
	_, in, err := w.Queue.Result(f.Job, f.Result)
	if err != nil {
		return nil
	}
	return readText(in, f.facts.Length)
}

// writePacked appends the gathered files to the growing package, or gives it up.
func (w *appender) writePacked() {
	if len(w.packed) == 0 || w.at.Pack.Length < 0 {
		return
	}
	if err := w.tryPacked(); err != nil {
		w.at.Pack.Length = store.NoPackage
		w.giveUp(err)
	}
	w.packed = w.packed[:0]
}

func (w *appender) tryPacked() error {
	if n := int64(len(w.packed)); !w.hasSpace(n) {
		return &spaceError{n}
	}
	if w.pack == nil {
		d, err := w.makeDir()
		if err != nil {
			return err
		}
		defer d.Close()
		if w.pack, err = w.openPackage(d); err != nil {
			return err
		}
	}
	if err := w.Set.pack.file.Write(w.pack, w.packed); err != nil {
		return err
	}
	w.made.grown = nil
	return nil
}

// openPackage opens the growing package of the open list to append to. Its files are
// verified unless it is as it was left. s.mu is held.
func (s *Set) openPackage(d *durable.Dir) (*os.File, error) {
	name := names.OpenPackageFile(s.at.First)
	file, err := d.Append(name)
	if err != nil {
		return nil, err
	}
	if err := s.preparePackage(d, name, file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (s *Set) preparePackage(d *durable.Dir, name string, file *os.File) error {
	length := s.at.Pack.Length
	if length > 0 && !s.pack.file.IsLeft(file) {
		in, err := d.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		g, err := dump.OpenGrowing(in, length)
		if err == nil {
			err = g.Check()
		}
		if err != nil {
			return store.Damage{Err: err}
		}
		if err := s.pack.file.Check(in, length); err != nil {
			return err
		}
	}
	if err := store.Cut(file, length); err != nil {
		return err
	}
	s.pack.file.Leave(file)
	return nil
}

// giveUp says that no package grows with the open list any more. Without free space its
// file goes. s.mu is held.
func (s *Set) giveUp(cause error) {
	name := names.OpenPackageFile(s.at.First)
	s.at.Pack.Length, s.pack.file = store.NoPackage, store.Growing{}
	if s.made.grown == nil { // one for all lists, until a package grows again
		s.report(name, "%v; the package of this Change List is made later, from the files of then", cause)
	}
	s.made.grown = cause
	if errors.Is(cause, syscall.ENOSPC) || errors.Is(cause, syscall.EDQUOT) {
		s.dropGrowing(s.at.First)
	}
}

// dropGrowing removes a growing package. If that fails, a sweep does it later.
func (s *Set) dropGrowing(first queuefs.Seq) {
	s.made.unswept = true
	if d, err := s.dir(); err == nil {
		defer d.Close()
		d.Remove(names.OpenPackageFile(first))
	}
}

// syncPackage puts the growing package of the open list on stable storage, and returns it
// for the closed list; false without one. s.mu is held.
func (s *Set) syncPackage(d *durable.Dir) (g grown, ok bool, err error) {
	if s.at.Pack.Length <= 0 {
		return g, s.at.Pack.Length == 0, nil
	}
	file, err := s.openPackage(d)
	if err != nil {
		s.giveUp(err)
		return g, false, nil
	}
	defer file.Close()
	if err := d.SyncFile(file); err != nil {
		return g, false, s.final(errors.Join(queuefs.ErrFailed, err))
	}
	return grown{s.at.Pack.Length, s.pack.file}, true, nil
}

// hasDumps reports whether the set has packages and Resource Dumps: the queue says it, or
// the Source.
func (s *Set) hasDumps() bool {
	sets := cmp.Or(s.Queue.State().Info.Dumps, s.Dumps)
	return sets == "" || slices.Contains(strings.Fields(sets), s.Kind.String())
}
