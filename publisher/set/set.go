package set

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
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

	mu      sync.Mutex
	files   store.Inventory
	at      store.OpenList // the entries stand in its file up to at.Length
	text    store.Growing  // this file
	made    progress
	render  entries.Renderer
	damaged map[string]error // files found damaged, until the next Tick makes them again
	unsure  bool             // a sync has failed: files may not be on stable storage
}

// Open opens a set of a queue. catchUp reads all committed events into both sets; was is
// the line of the cursor, nil if there is none.
func Open(of Subject, kind names.Set, was *store.Line, catchUp func() error) (*Set, error) {
	s := &Set{Subject: of, Kind: kind, Path: of.Queue.ID() + "/" + kind.String(), catchUp: catchUp, render: of.Renderer()}
	s.bound = s.render.Bound(kind)
	s.PerPage = s.perPage()
	s.reset(store.OpenList{})
	return s, s.restore(was)
}

// reset makes the set one without lists.
func (s *Set) reset(at store.OpenList) {
	s.begin(at)
	s.files, s.damaged = store.NewInventory(s.Path, s.Stamp()), nil
	s.made = progress{packed: at.Read, life: s.made.life + 1}
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
func (s *Set) Seq() queuefs.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Read
}

// dir opens the directory of the set.
func (s *Set) dir() (*durable.Dir, error) { return s.Store.Dir(s.Queue.ID(), s.Kind.String()) }

// makeDir opens the directory of the set, and makes it if it is absent.
func (s *Set) makeDir() (*durable.Dir, error) { return s.Store.MakeDir(s.Queue.ID(), s.Kind.String()) }

// restore brings the lists to where they stood: after the last closed list, or
// within the open one where the cursor says.
func (s *Set) restore(was *store.Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(store.NewOpenList(s.Queue.State().Before, s.Since()))
	if was != nil && was.Open.From.Before(s.Since()) {
		was = nil // it speaks of a former queue of the name
	}

	d, err := s.dir()
	switch {
	case err == nil:
		defer d.Close()
		err = s.files.Read(s.Store, d, s.Queue.Seq(), func(file, text string, args ...any) {
			if _, dump := names.ParseDumpFile(file); dump {
				s.made.wanted = s.Queue.Seq()
			}
			s.report(file, text, args...)
		})
		s.made.unswept = true
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return s.mend(err)
	}
	if d != nil && (s.files.Torn || was != nil && s.files.Lists.Last().Last < was.List) {
		if err := s.final(s.files.Recover(s.Store, d, s.at, was, s.report)); err != nil {
			return s.mend(err)
		}
	}
	s.made.packed = s.files.Packages.Last().Last
	if d != nil {
		packed, err := s.files.Forms(d)
		if err != nil {
			return err
		}
		if s.made.unfolded = true; !s.hasDumps() {
			s.made.packed = max(s.made.packed, packed)
		}
	}
	if last := s.files.Lists.Last(); last.Last > 0 {
		s.begin(store.NewOpenList(last.Last, last.Until))
	}
	if d != nil {
		if err := s.survey(d); err != nil {
			return err
		}
	}
	if was == nil {
		return nil
	}
	s.miss(was)
	at := &was.Open
	if at.First < s.at.First || at.From.Before(s.at.From) {
		return nil // the list has been closed since
	}
	if at.Read > s.Queue.Seq() {
		return s.restart(store.Damaged("cursor is at event %d, the queue at %d", at.Read, s.Queue.Seq()))
	}
	if at.Entries > 0 {
		if err := s.unpackOpen(d, at); err != nil {
			return err
		}
		if err := s.check(d, at); err != nil {
			return s.mend(lostList(err))
		}
	}
	s.at, s.text = *at, store.GrowingFrom(was.SHA256)
	return nil
}

// miss reports the lines and dumps the cursor knows of that are gone.
func (s *Set) miss(was *store.Line) {
	if at := s.files.Lists.Last().Last; at < was.List {
		s.report("lists", "ends at event %d, and went to %d; the index begins after them", at, was.List)
	}
	if at := s.files.Packages.Last().Last; at < was.Package && (len(s.files.Lists.All) == 0 || was.Package >= s.files.Lists.All[0].First) {
		s.report("packages", "ends at event %d, and went to %d; the packages of lists are made again", at, was.Package)
	}
	if one := s.files.Dump(0); was.Dump > 0 && s.made.wanted == 0 && (one == nil || one.Seq < was.Dump) {
		s.report(names.DumpFile(was.Dump), "is no Resource Dump any more; the next Tick makes one")
		s.made.wanted = s.Queue.Seq()
	}
}

// report reports something about a file of the set.
func (s *Set) report(file, text string, args ...any) { s.Reportf(s.Path+"/"+file, text, args...) }

// check compares the end of the file of an open list with the cursor. The digest is
// compared when the list is read or grows.
func (s *Set) check(d *durable.Dir, at *store.OpenList) error {
	name := names.EntriesFile(at.First)
	if d == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	file, err := d.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	const end = "</url>\n"
	var got [len(end)]byte
	if _, err := file.ReadAt(got[:], at.Length-int64(len(end))); err != nil && err != io.EOF {
		return err
	}
	if string(got[:]) != end {
		return store.Damaged("%s: no entry ends at octet %d", name, at.Length)
	}
	return nil
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
