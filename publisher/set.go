package publisher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"cutie/publisher/compose"
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
	at     store.OpenList // the entries stand in its file up to at.Length
	began  age
	made   progress
	render entries.Renderer
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
	s.at, s.Inventory = at, store.NewInventory(s.p.stamp())
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

// open opens a file in the directory of the set for reading.
func (s *set) open(name string) (*os.File, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(name)
}

func (s *set) opener(name string) compose.Opener {
	return func() (*os.File, error) { return s.open(name) }
}

// restore brings the lists to where they stood: after the last closed list, or
// within the open one where the cursor says.
func (s *set) restore(at *store.OpenList) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = store.NewOpenList(s.q.State().Before, s.created())

	d, err := s.dir()
	switch {
	case err == nil:
		defer d.Close()
		err = s.Read(d, s.q.Seq(), func(file, text string, args ...any) { s.p.report(s.path+"/"+file, text, args...) })
		s.made.unswept = true
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return s.mend(err)
	}
	s.made.packed = s.Packages.Last().Last
	if last := s.Lists.Last(); last.Last > 0 {
		s.at = store.NewOpenList(last.Last, last.Until)
	}
	if at == nil || at.First < s.at.First || at.From.Before(s.at.From) {
		return nil // the cursor speaks of a list closed since, or of a former queue of the name
	}
	if at.Read > s.q.Seq() {
		return s.restart(store.Damaged("cursor is at event %d, the queue at %d", at.Read, s.q.Seq()))
	}
	if at.Entries > 0 {
		if err := s.check(d, at); err != nil {
			return s.mend(err)
		}
	}
	s.at = *at
	return nil
}

// check compares the end of the file of an open list with the cursor.
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

// mend begins the set anew if its files are unusable, and returns every other
// error. All in resourcesync is derived, so the queue goes on without it. After an
// error of storage the engine keeps its events, and the same is tried again. s.mu
// is held.
func (s *set) mend(err error) error {
	if err == nil || !store.Unusable(err) {
		return err
	}
	return s.restart(err)
}

// restart sets all files aside and begins a list after the last event. s.mu is
// held.
func (s *set) restart(cause error) error {
	aside, err := s.p.store.SetAside(s.q.ID(), s.kind.String())
	if err != nil {
		return errors.Join(cause, err)
	}
	s.p.report(s.path, "%v; moved to %s, a new Change List begins", cause, aside)
	s.reset(s.listNow())
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
	Err      error         // why the last package or dump was not made; nil if it was
}

// State returns the state of all sets, sorted by queue. A queue with
// unusable lists is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		if f, err := p.follower(q); err == nil {
			now := q.State()
			for _, s := range f.sets {
				all = append(all, s.state(&now))
			}
		}
	}
	return all
}

func (s *set) state(now *queuefs.QueueState) SetState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SetState{Queue: s.q.ID(), Set: s.kind, Event: now.Seq, Read: min(s.at.Read, now.Seq),
		Open: s.at.Entries, Lists: len(s.Lists.All), Waiting: len(s.unpacked()), Packages: len(s.Packages.All), Dumps: len(s.Dumps),
		Octets: s.Octets() + s.at.Length, Err: s.made.failure()}
	if st.Read < st.Event {
		st.Lag = max(0, now.LastEvent.Sub(s.at.Until))
	}
	return st
}
