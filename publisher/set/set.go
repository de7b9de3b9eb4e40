package set

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A Set is one of the two sets of a queue: its Change Lists, packages and
// Resource Dumps, and how far it has read the events.
type Set struct {
	Subject
	Kind    names.Set
	Path    string       // below resourcesync
	PerPage int          // engine pages in a page of the Resource List
	bound   int          // most bytes of a job in a Resource List
	catchUp func() error // reads all committed events into both sets

	mu     sync.Mutex
	files  Inventory
	at     OpenList // the entries stand in its file up to at.Length
	text   Growing  // this file
	made   progress
	render names.Renderer
	lost   int // damaged files that were set aside
}

// Open opens a set of a queue. catchUp reads all committed events into both sets; was is
// the line of the cursor, nil if there is none.
func Open(of Subject, kind names.Set, was *Line, catchUp func() error) (*Set, error) {
	s := &Set{Subject: of, Kind: kind, Path: of.Queue.ID() + "/" + kind.String(), catchUp: catchUp, render: of.Renderer()}
	s.bound = s.render.Bound(kind)
	s.PerPage = s.perPage()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.mend(s.restore(was))
}

// URI returns the reference of a document of the set; see [names.Kind.Of].
func (s *Set) URI(k names.Kind, numbers ...uint64) string {
	return s.Refs.Doc(s.Kind, k.Of(numbers...))
}

// Up returns the links of all documents of the set: the one to its Capability
// List, and more.
func (s *Set) Up(more ...sitemap.Link) []sitemap.Link {
	return append([]sitemap.Link{{Rel: sitemap.RelUp, Href: s.URI(names.CapabilityList)}}, more...)
}

// Seq returns the last event read.
func (s *Set) Seq() job.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Read
}

// LastChange returns the time of the last event in any document, or of the
// creation of the queue.
func (s *Set) LastChange() time.Time {
	if s.catchUp() != nil {
		return s.OrCreated(s.Queue.State().LastEvent) // or of a later event
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.OrCreated(s.at.Until)
}

// dir opens the directory of the set.
func (s *Set) dir() (*durable.Dir, error) { return s.Store.Dir(s.Queue.ID(), s.Kind.String()) }

// makeDir opens the directory of the set, and makes it if it is absent.
func (s *Set) makeDir() (*durable.Dir, error) { return s.Store.MakeDir(s.Queue.ID(), s.Kind.String()) }

// report reports something about a file of the set.
func (s *Set) report(file, text string, args ...any) { s.Reportf(s.Path+"/"+file, text, args...) }

// begin makes at the open list; it has no entries yet. mu is held.
func (s *Set) begin(at OpenList) { s.at, s.text = at, Growing{} }

// restore brings the set to where it was: after the last closed list, or within the open one
// where the cursor says. Unusable files are an error. mu is held.
func (s *Set) restore(was *Line) error {
	s.begin(NewOpenList(s.Queue.State().Before, s.Since()))
	s.made.packed = s.at.Read
	if was == nil || was.Open.From.Before(s.Since()) {
		was = &Line{} // it speaks of a former queue of the name
	}
	d, err := s.dir()
	if errors.Is(err, fs.ErrNotExist) && was.List == 0 && was.Open.Entries == 0 {
		s.goOn(was)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	s.made.unswept = true
	s.files, err = ReadInventory(d, s.Path, s.Stamp())
	if errors.Is(err, fs.ErrNotExist) && was.List == 0 {
		err = nil // no list was closed yet
	}
	if err != nil {
		return err
	}
	last := Last(s.files.Lists)
	switch at := max(last.Last, Last(s.files.Packages).Last, was.Open.Read); {
	case at > s.Queue.Seq():
		return Damaged("reaches to event %d, the queue to %d", at, s.Queue.Seq())
	case last.Last < was.List:
		return Damaged("the lists end at event %d, and went to %d", last.Last, was.List)
	}
	if s.made.packed = max(s.made.packed, Last(s.files.Packages).Last); !s.hasDumps() {
		s.made.packed = max(s.made.packed, last.Last)
	}
	if last.Last > 0 {
		s.begin(NewOpenList(last.Last, last.Until))
	}
	if err := s.survey(d); err != nil {
		return err
	}
	before := s.at
	err = s.reopen(d, was)
	if err != nil && Unusable(err) { // also of a copy that was made while the list was closed
		s.report(names.EntriesFile(s.at.First), "%v; the events after %d are read again from the journal", err, before.Read)
		s.begin(before)
		err = nil
	}
	return err
}

// reopen goes on with the open list of the cursor, unless it has been closed since.
func (s *Set) reopen(d *durable.Dir, was *Line) error {
	if !s.goOn(was) || s.at.Length == 0 {
		return nil
	}
	file, err := d.Open(names.EntriesFile(s.at.First))
	if err != nil {
		return err
	}
	defer file.Close()
	const end = "</url>\n"
	var got [len(end)]byte
	if n, err := file.ReadAt(got[:], s.at.Length-int64(len(end))); n < len(got) && err != nil && err != io.EOF {
		return err
	}
	if string(got[:]) != end { // the digest is compared when the list is read or grows
		return Damaged("%s: no entry ends at octet %d", names.EntriesFile(s.at.First), s.at.Length)
	}
	return nil
}

func (s *Set) goOn(was *Line) bool {
	at := &was.Open
	if at.First < s.at.First || at.From.Before(s.at.From) {
		return false
	}
	s.at, s.text = *at, GrowingFrom(was.SHA256)
	return true
}

// survey looks for files that are absent or have another length. mu is held.
func (s *Set) survey(d *durable.Dir) error {
	files := s.files // lose changes it
	for p := range files.Pieces {
		st, err := d.Stat(p.Name)
		if err == nil && st.Size != p.Length {
			err = Damaged("%s has %d octets of %d", p.Name, st.Size, p.Length)
		}
		if err == nil {
			continue
		}
		if !Unusable(err) {
			return err
		}
		if err := s.lose(p.Name, err); err != nil {
			return err
		}
	}
	return nil
}

// write makes other files those of the set. After an error they are if the inventory is in place
// all the same: a crash may leave the one of before, which the cursor then tells. mu is held.
func (s *Set) write(d *durable.Dir, files Inventory) error {
	if err := files.Write(d, s.Path, s.Stamp()); err != nil {
		if in, e := files.IsIn(d, s.Path, s.Stamp()); e != nil || !in {
			return errors.Join(err, e)
		}
	}
	s.files = files
	return nil
}

// lose takes a damaged file out of the set, and what is of no use without it: the index begins
// after a damaged list, the Change Dump after a damaged package, and no Resource Dump has a
// damaged package. Who comes too late for what is left begins anew, with another Resource
// Dump. mu is held.
func (s *Set) lose(name string, cause error) error {
	if !s.files.Has(name) {
		return nil // it was removed meanwhile
	}
	d, err := s.dir()
	if err != nil {
		return err
	}
	defer d.Close()
	files, is := s.files, func(of func(*Span) Piece) func(Span) bool {
		return func(sp Span) bool { return of(&sp).Name == name }
	}
	what, packed := "", s.made.packed
	if i := slices.IndexFunc(files.Lists, is((*Span).List)); i >= 0 {
		packed = max(packed, files.Lists[i].Last)
		what, files.Lists = fmt.Sprintf("the index begins after event %d", files.Lists[i].Last), files.Lists[i+1:]
	} else if i := slices.IndexFunc(files.Packages, is((*Span).Package)); i >= 0 {
		what, files.Packages = fmt.Sprintf("the Change Dump begins after event %d", files.Packages[i].Last), files.Packages[i+1:]
	} else {
		n := len(files.Dumps)
		files.Dumps = slices.DeleteFunc(slices.Clone(files.Dumps), func(one *Edition) bool { return one.Has(name) })
		what = fmt.Sprintf("%d Resource Dumps go", n-len(files.Dumps))
	}
	if s.files.Dump(0) != nil {
		s.made.wanted = s.Queue.Seq()
	}
	if err := s.write(d, files); err != nil {
		return err
	}
	if packed > s.made.packed {
		s.made.packed, s.made.skipped = packed, packed
	}
	s.made.unswept = true
	s.given.Add(1)
	s.lost++
	aside, err := SetAside(d, name)
	if Absent(err) {
		aside, err = "nowhere", nil
	}
	s.report(name, "%v; moved to %s, %s", cause, aside, what)
	return err
}

// mend begins the set anew if an error is about unusable files, and returns every other error.
// All in resourcesync is derived, so the queue goes on without it. After an error of storage,
// such as a failed sync, the engine keeps its events, and the same is tried again; if octets
// were lost, their digest tells. mu is held.
func (s *Set) mend(cause error) error {
	if cause == nil || !Unusable(cause) {
		return cause
	}
	aside, err := s.Store.SetAside(s.Queue.ID(), s.Kind.String())
	if err != nil {
		return errors.Join(cause, err)
	}
	had := s.files.Dump(0) != nil
	s.files = Inventory{}
	s.begin(s.ListNow())
	s.made = progress{packed: s.at.Read, life: s.made.life + 1}
	if had {
		s.made.wanted = s.at.Read
	}
	s.given.Add(1)
	s.lost++
	s.Reportf(s.Path, "%v; moved to %s, a new Change List begins after event %d", cause, aside, s.at.Read)
	return nil
}

// OpenPiece opens a file of a closed list or a package, verified: when it is opened first, and
// again after a change of the file. mu is not held.
func (s *Set) OpenPiece(p Piece) (*os.File, error) {
	file, err := s.openFile(p.Name)
	if err == nil {
		if err = s.Store.Verified.Check(file, p.Length, p.Sum); err == nil {
			return file, nil
		}
		file.Close()
	}
	return nil, s.broken(p.Name, err)
}

// openFile opens a file in the directory of the set for reading.
func (s *Set) openFile(name string) (*os.File, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(name)
}

// broken takes a damaged file out of the set, and returns the error for its reader. Other
// errors it returns as they are. mu is not held.
func (s *Set) broken(name string, err error) error {
	if !Unusable(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.files.Has(name) {
		return err // it was removed, or has another form by now
	}
	if err := s.mend(s.lose(name, err)); err != nil {
		return err
	}
	return &brokenFile{name}
}

// A brokenFile is the answer to who finds a damaged file; then it is gone.
type brokenFile struct{ name string }

func (e *brokenFile) Error() string {
	return e.name + " is damaged, and is not published any more: try again to learn where to begin anew"
}

// HTTPStatus makes the error an answer with its text.
func (e *brokenFile) HTTPStatus() int { return http.StatusServiceUnavailable }

// OpenManifest opens the manifest in a package.
func (s *Set) OpenManifest(p Piece) (io.ReadCloser, error) {
	file, err := s.OpenPiece(p)
	if err != nil {
		return nil, err
	}
	r, err := OpenManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return r, nil
}
