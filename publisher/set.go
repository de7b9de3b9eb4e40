package publisher

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

// A set is one of the two sets of a queue: its Change Lists, packages and
// Resource Dumps, and how far it has read the events.
type set struct {
	subject
	kind    names.Set
	path    string       // below resourcesync
	pages   int          // engine pages in a page of the Resource List
	bound   int          // most bytes of a job in a Resource List
	catchUp func() error // reads all committed events into both sets

	mu sync.Mutex
	store.Inventory
	at      store.OpenList // the entries stand in its file up to at.Length
	text    store.Growing  // this file
	began   age
	made    progress
	render  entries.Renderer
	damaged map[string]error // files found damaged, until the next Tick makes them again
	unsure  bool             // a sync has failed: files may not be on stable storage
}

func newSet(of subject, kind names.Set, catchUp func() error) *set {
	s := &set{subject: of, kind: kind, path: of.q.ID() + "/" + kind.String(), catchUp: catchUp, render: of.renderer()}
	s.bound = s.render.Bound(kind)
	s.pages = s.pagesOf()
	s.reset(store.OpenList{})
	return s
}

// reset makes the set one without lists.
func (s *set) reset(at store.OpenList) {
	s.begin(at)
	s.Inventory, s.damaged = store.NewInventory(s.path, s.p.Stamp()), nil
	s.made = progress{packed: at.Read, life: s.made.life + 1}
}

// uri returns the reference of a document of the set; see [names.Kind.Of].
func (s *set) uri(k names.Kind, numbers ...uint64) string {
	return s.refs.Doc(s.kind, k.Of(numbers...))
}

// refer returns the reference of a document.
func (s *set) refer(d names.Doc) string { return s.refs.Doc(s.kind, d) }

// up returns the links of all documents of the set: the one to its Capability
// List, and more.
func (s *set) up(more ...sitemap.Link) []sitemap.Link {
	return append([]sitemap.Link{{Rel: sitemap.RelUp, Href: s.uri(names.CapabilityList)}}, more...)
}

// seq returns the last event read.
func (s *set) seq() queuefs.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Read
}

// dir opens the directory of the set.
func (s *set) dir() (*durable.Dir, error) { return s.p.store.Dir(s.q.ID(), s.kind.String()) }

// makeDir opens the directory of the set, and makes it if it is absent.
func (s *set) makeDir() (*durable.Dir, error) { return s.p.store.MakeDir(s.q.ID(), s.kind.String()) }

// restore brings the lists to where they stood: after the last closed list, or
// within the open one where the cursor says.
func (s *set) restore(was *store.Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(store.NewOpenList(s.q.State().Before, s.created()))
	if was != nil && was.Open.From.Before(s.created()) {
		was = nil // it speaks of a former queue of the name
	}

	d, err := s.dir()
	switch {
	case err == nil:
		defer d.Close()
		err = s.Read(s.p.store, d, s.q.Seq(), func(file, text string, args ...any) {
			if _, dump := names.ParseDumpFile(file); dump {
				s.made.wanted = s.q.Seq()
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
	if d != nil && (s.Torn || was != nil && s.Lists.Last().Last < was.List) {
		if err := s.final(s.Recover(s.p.store, d, s.at, was, s.report)); err != nil {
			return s.mend(err)
		}
	}
	s.made.packed = s.Packages.Last().Last
	if last := s.Lists.Last(); last.Last > 0 {
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
	if at.Read > s.q.Seq() {
		return s.restart(store.Damaged("cursor is at event %d, the queue at %d", at.Read, s.q.Seq()))
	}
	if at.Entries > 0 {
		if err := s.check(d, at); err != nil {
			return s.mend(lostList(err))
		}
	}
	s.at, s.text = *at, store.GrowingFrom(was.SHA256)
	return nil
}

// miss reports the lines and dumps the cursor knows of that are gone.
func (s *set) miss(was *store.Line) {
	if at := s.Lists.Last().Last; at < was.List {
		s.report("lists", "ends at event %d, and went to %d; the index begins after them", at, was.List)
	}
	if at := s.Packages.Last().Last; at < was.Package && (len(s.Lists.All) == 0 || was.Package >= s.Lists.All[0].First) {
		s.report("packages", "ends at event %d, and went to %d; the packages of lists are made again", at, was.Package)
	}
	if one := s.Dump(0); was.Dump > 0 && s.made.wanted == 0 && (one == nil || one.Seq < was.Dump) {
		s.report(names.DumpFile(was.Dump), "is no Resource Dump any more; the next Tick makes one")
		s.made.wanted = s.q.Seq()
	}
}

// report reports something about a file of the set.
func (s *set) report(file, text string, args ...any) { s.p.Reportf(s.path+"/"+file, text, args...) }

// check compares the end of the file of an open list with the cursor. The digest is
// compared when the list is read or grows.
func (s *set) check(d *durable.Dir, at *store.OpenList) error {
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

// SetState is how far the publishing of a set is.
type SetState struct {
	Queue    string
	Set      names.Set
	Event    queuefs.Seq   // last event of the queue
	Read     queuefs.Seq   // last event in the lists; a request brings them up to date
	Lag      time.Duration // between these two; 0 if they are one
	Open     int           // entries of the open Change List
	Lists    int           // closed Change Lists
	Waiting  int           // closed Change Lists without packages
	Packages int           // of Change Dumps
	Dumps    int           // Resource Dumps
	Octets   int64         // bytes of lists, packages and dumps
	Damaged  int           // files to be made again by the next Tick
	Lost     int           // closed lists and packages that could not be made again
	Err      error         // why the last package or dump was not made; nil if it was
}

// State returns the state of all sets, sorted by queue. A queue with
// unusable lists is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		if r, rests := p.atRest(q); rests {
			for i := range r.lines {
				all = append(all, restingState(&r.lines[i]))
			}
		} else if f, err := p.use(q); err == nil {
			now := q.State()
			for _, s := range f.sets {
				all = append(all, s.state(&now))
			}
			f.release()
		}
	}
	return all
}

// restingState is the state of a set of a queue at rest.
func restingState(l *store.Line) SetState {
	return SetState{Queue: l.Queue, Set: l.Set, Event: l.Open.Read, Read: l.Open.Read, Open: l.Open.Entries,
		Lists: l.Files.Lists, Packages: l.Files.Packages, Dumps: l.Files.Dumps, Octets: l.Files.Octets + l.Open.Length, Lost: l.Files.Lost}
}

func (s *set) state(now *queuefs.QueueState) SetState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SetState{Queue: s.q.ID(), Set: s.kind, Event: now.Seq, Read: min(s.at.Read, now.Seq),
		Open: s.at.Entries, Lists: len(s.Lists.All), Waiting: len(s.unpacked()), Packages: len(s.Packages.All), Dumps: len(s.Dumps),
		Octets: s.Octets() + s.at.Length, Err: s.made.failure(),
		Damaged: len(s.damaged), Lost: s.Lists.Lost() + s.Packages.Lost()}
	if st.Read < st.Event {
		st.Lag = max(0, now.LastEvent.Sub(s.at.Until))
	}
	return st
}
