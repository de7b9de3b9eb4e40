package set

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// EventBatch is how many events are read at a time. A package reads them with up to PartBytes
// of parts.
const (
	EventBatch = 512
	PartBytes  = 1 << 20
)

// An OpenList is the open Change List of a set: how far the set has read the
// events of its queue, and how far the list had grown by then.
type OpenList struct {
	First   job.Seq   // first event of the list, after the last list or gap; Read+1 at most
	Read    job.Seq   // last event read
	From    time.Time // of the event before First, or of the creation of the queue
	Until   time.Time // of the last event that is no phase, or of the creation
	Since   time.Time // of the first event with an entry; zero without one
	Changed time.Time // of the last event with an entry; zero without one
	Entries int
	Length  int64 // bytes of the entries
	Files   int64 // bytes of the files its package is to have
}

// NewOpenList returns the list that begins after the event seq.
func NewOpenList(seq job.Seq, at time.Time) OpenList {
	return OpenList{First: seq + 1, Read: seq, From: at, Until: at}
}

// Span returns the list as it would be closed.
func (l *OpenList) Span() Span {
	return Span{First: l.First, Last: l.Read, From: l.From, Until: l.Until, Entries: l.Entries, Length: l.Length}
}

// Add adds an event with n entries of size bytes. Until does not move with a
// phase: documents show no phases.
func (l *OpenList) Add(ev *job.Event, n, size int) {
	if l.Read = ev.Seq; ev.Kind == job.Phase {
		return
	}
	l.Until = ev.Time
	if n == 0 {
		return
	}
	if l.Entries == 0 {
		l.Since = ev.Time
	}
	l.Changed = ev.Time
	l.Entries += n
	l.Length += int64(size)
}

// A Standing is a set at one instant, as it is published.
type Standing struct {
	OpenList
	Lists    []Span    // closed lists in the index
	Packages []Span    // in the Change Dump
	Next     time.Time // from when on there is no package
}

// CurrentList brings the open list up to date and returns it.
func (s *Set) CurrentList() (OpenList, error) {
	if err := s.catchUp(); err != nil {
		return OpenList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, nil
}

// Standing brings the lists up to date and returns how they stand.
func (s *Set) Standing() (Standing, error) {
	if err := s.catchUp(); err != nil {
		return Standing{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Standing{OpenList: s.at, Lists: s.indexed()}
	st.Packages, st.Next = s.dumped()
	return st, nil
}

// indexed returns the closed lists in the index: they follow each other without
// a gap up to the open one, and are no older than Current, or have changes since the
// last Resource Dump. mu is held.
func (s *Set) indexed() []Span {
	return s.recent(Current(s.files.Lists, s.at.First, s.perIndex()-1))
}

// dumped returns the packages in the Change Dump, and from when on there is
// none. mu is held.
func (s *Set) dumped() ([]Span, time.Time) {
	next := s.at.From
	if lists := s.unpacked(); len(lists) > 0 {
		next = lists[0].From
	}
	packages := Current(s.files.Packages, s.made.packed+1, s.perIndex()-1) // as many as closed lists
	if n := len(packages); n > 0 {
		next = packages[n-1].Until
	}
	return s.recent(packages), next
}

// recent leaves out spans with an end longer ago than Current, but none with changes
// since the last Resource Dump: who begins with that needs them. mu is held.
func (s *Set) recent(all []Span) []Span {
	current := s.Terms().Current
	if current == 0 {
		return all
	}
	oldest, dump := s.Now().Add(-current), s.files.Dump(0)
	for len(all) > 0 && all[0].Until.Before(oldest) && (dump == nil || all[0].Last <= dump.Seq) {
		all = all[1:]
	}
	return all
}

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

// EntriesOf opens the entries of the Change List from the event first on, verified up to
// length. mu is not held.
func (s *Set) EntriesOf(first job.Seq, length int64) (Content, error) {
	for {
		s.mu.Lock()
		if first == s.at.First && length <= s.at.Length {
			file, err := s.openGrowing()
			if err != nil && Unusable(err) {
				err = errors.Join(s.mend(err), &brokenFile{names.EntriesFile(first)})
			}
			s.mu.Unlock()
			return file, err
		}
		sp, closed := Find(s.files.Lists, first)
		s.mu.Unlock()
		if !closed || length > sp.Length {
			return nil, fmt.Errorf("%s: %w", names.EntriesFile(first), fs.ErrNotExist) // removed, or lost
		}
		file, err := s.OpenPiece(sp.List())
		switch {
		case Absent(err) && sp.Packed == 0: // its entries stand in gzip alone by now
		case err != nil:
			return nil, err
		case sp.Packed > 0:
			return &unzipped{File: file, from: int64(len(s.ListHead(&sp)))}, nil
		default:
			return file, nil
		}
	}
}

// ListHead returns the beginning of a Change List, up to its entries.
func (s *Set) ListHead(sp *Span) []byte {
	return s.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: sp.From, Until: sp.Until,
		Links: s.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.URI(names.ChangeIndex)})})
}

// openGrowing opens the entries of the open list, verified. mu is held.
func (s *Set) openGrowing() (*os.File, error) {
	file, err := s.openFile(names.EntriesFile(s.at.First))
	if err != nil {
		return nil, err
	}
	if err := s.text.Check(file, s.at.Length); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Cut cuts a file to a length. A shorter one is damaged.
func Cut(file *os.File, length int64) error {
	st, err := file.Stat()
	switch {
	case err != nil:
		return err
	case st.Size() < length:
		return Damaged("%s has %d octets of %d", file.Name(), st.Size(), length)
	case st.Size() > length:
		return file.Truncate(length)
	}
	return nil
}

// A Growing is the file of an open list: the
// digest of all that was written to it, and the file as the last write left it. It is for
// one goroutine. The zero Growing is of a file without contents.
type Growing struct {
	hash hash.Hash         // of the contents; nil until some are written
	want [sha256.Size]byte // digest of the contents while hash is nil
	has  bool              // want is known
	left durable.Identity
}

// GrowingFrom returns the file of a list as the cursor has it; sum is a word of
// [Growing.Word].
func GrowingFrom(sum string) (g Growing) {
	g.want, g.has = parseSum(sum)
	return g
}

// Word returns the digest of the entries in hexadecimal, [Unknown] without one.
func (g *Growing) Word() string {
	if g.hash != nil {
		return hex.EncodeToString(g.hash.Sum(nil))
	}
	if g.has {
		return hex.EncodeToString(g.want[:])
	}
	return Unknown
}

// Sum returns the digest as a hash to go on with.
func (g *Growing) Sum() (hash.Hash, error) {
	if g.hash == nil {
		return sha256.New(), nil
	}
	return g.hash.(hash.Cloner).Clone()
}

// Check verifies the first length bytes of the file, unless the file is as it was left
// by the last Check or Write.
func (g *Growing) Check(f *os.File, length int64) error {
	if length == 0 || g.IsLeft(f) {
		return nil
	}
	return g.Reread(f, length)
}

// Reread verifies the first length bytes of the file.
func (g *Growing) Reread(f *os.File, length int64) error {
	now, err := durable.IdentityOf(f)
	if err != nil {
		return err
	}
	return g.sum(f, length, now)
}

func (g *Growing) sum(f *os.File, length int64, now durable.Identity) error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, length))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if n < length {
		return Damaged("%s has %d octets of %d", f.Name(), n, length)
	}
	if want := g.Word(); want != Unknown && want != hex.EncodeToString(h.Sum(nil)) {
		return Damaged("%s has not its SHA-256 digest", f.Name())
	}
	g.hash, g.left = h, now
	return nil
}

// Write appends entries to the file. After an error the list does not have them.
func (g *Growing) Write(f *os.File, p []byte) error {
	if _, err := f.Write(p); err != nil {
		return err
	}
	if g.hash == nil {
		g.hash = sha256.New()
	}
	g.hash.Write(p)
	g.Leave(f)
	return nil
}

// IsLeft reports whether the file is as the last Write or Check left it.
func (g *Growing) IsLeft(f *os.File) bool {
	now, err := durable.IdentityOf(f)
	return err == nil && now == g.left && g.hash != nil
}

// Leave says that the file is good as it is.
func (g *Growing) Leave(f *os.File) {
	now, err := durable.IdentityOf(f)
	if err != nil {
		now = durable.Identity{} // the next Check reads the file
	}
	g.left = now
}
