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
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A set is one of the two sets of a queue: its Change Lists, packages and
// Resource Dumps, and how far it has read the events.
type set struct {
	subject
	kind    Set
	pages   int          // engine pages in a page of the Resource List
	bound   int          // most bytes that a job adds to a Resource List
	catchUp func() error // reads all committed events into both sets

	mu       sync.Mutex
	mark     mark  // the entries of the open list stand in its file up to mark.length
	lists    spans // closed Change Lists
	packages spans // of the Change Dump
	dumps    []*edition
	made     progress
	render   renderer
}

func newSet(of subject, kind Set, catchUp func() error) *set {
	s := &set{subject: of, kind: kind, catchUp: catchUp}
	s.render = s.renderer()
	s.bound = s.render.bound(kind)
	s.pages = s.pagesOf()
	s.reset(mark{})
	return s
}

// reset makes the set one without lists.
func (s *set) reset(m mark) {
	s.mark, s.lists, s.packages, s.dumps = m, spans{file: "lists"}, spans{file: "packages"}, nil
	s.made = progress{packed: m.seq, life: s.made.life + 1}
}

// uri returns the reference of a document of the set.
func (s *set) uri(d docName) string { return s.names.docs[s.kind] + d.String() }

// up returns the links of all documents of the set: the one to its Capability
// List, and more.
func (s *set) up(more ...sitemap.Link) []sitemap.Link {
	return append([]sitemap.Link{{Rel: sitemap.RelUp, Href: s.uri(docName{kind: capabilityList})}}, more...)
}

// path returns the path of the set below resourcesync.
func (s *set) path() string { return s.q.ID() + "/" + s.kind.String() }

// seq returns the last event read.
func (s *set) seq() queuefs.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.seq
}

// dir opens the directory of the set.
func (s *set) dir() (*durable.Dir, error) { return s.openDir((*durable.Dir).Sub) }

// makeDir opens the directory of the set, and makes it if it is absent.
func (s *set) makeDir() (*durable.Dir, error) {
	d, err := s.dir()
	if errors.Is(err, fs.ErrNotExist) {
		return s.openDir((*durable.Dir).MakeSub)
	}
	return d, err
}

func (s *set) openDir(sub func(*durable.Dir, string) (*durable.Dir, error)) (*durable.Dir, error) {
	q, err := sub(s.p.store.root(), s.q.ID())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	return sub(q, s.kind.String())
}

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
func (s *set) restore(m *mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = beginning(s.q.State().Before, s.created())

	d, err := s.dir()
	if err == nil {
		defer d.Close()
		err = errors.Join(s.lists.read(d, s.p.stamp()), s.packages.read(d, s.p.stamp()))
		if last := max(s.lists.last(), s.packages.last()); err == nil && last > s.q.Seq() {
			err = damage{fmt.Errorf("lists reach to event %d, the queue to %d", last, s.q.Seq())}
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return s.mend(err)
	}
	if d != nil {
		if s.dumps, err = s.readDumps(d); err != nil {
			return s.mend(err)
		}
		s.made.unswept = true
	}
	s.made.packed = s.packages.last()
	if n := len(s.lists.all); n > 0 {
		last := s.lists.all[n-1]
		s.mark = beginning(last.last, last.until)
	}
	if m == nil || m.first < s.mark.first || m.from.Before(s.mark.from) {
		return nil // the cursor speaks of a list closed since, or of a former queue of the name
	}
	if m.seq > s.q.Seq() {
		return s.restart(damage{fmt.Errorf("cursor is at event %d, the queue at %d", m.seq, s.q.Seq())})
	}
	if m.entries > 0 {
		if err := s.check(d, m); err != nil {
			return s.mend(err)
		}
	}
	s.mark = *m
	return nil
}

// check reports whether the file of an open list has what the cursor says.
func (s *set) check(d *durable.Dir, m *mark) error {
	name := entriesFile(m.first)
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
	if _, err := file.ReadAt(got[:], m.length-int64(len(end))); err != nil && err != io.EOF {
		return err
	}
	if string(got[:]) != end {
		return damage{fmt.Errorf("%s: no entry ends at octet %d", name, m.length)}
	}
	return nil
}

// mend begins the set anew if the error says that its files are unusable, and
// returns every other error. All in resourcesync is derived, so a queue goes on
// whatever becomes of it; an error of storage is returned instead, the engine
// keeps its events, and the same is tried again. s.mu is held.
func (s *set) mend(err error) error {
	if err == nil || !unusable(err) {
		return err
	}
	return s.restart(err)
}

// restart sets all files aside and begins a list after the last event. s.mu is
// held.
func (s *set) restart(cause error) error {
	aside := ""
	err := s.p.revive()
	if err == nil {
		aside, err = s.setAside()
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	s.p.report(s.path(), "%v; moved to %s, a new Change List begins", cause, aside)
	s.reset(s.markNow())
	return nil
}

// setAside moves the directory of the set, or what stands in its place, and
// returns where to.
func (s *set) setAside() (string, error) {
	root := s.p.store.root()
	q, err := root.Sub(s.q.ID())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "nowhere", nil
	case err != nil && unusable(err):
		return setAside(root, s.q.ID())
	case err != nil:
		return "", err
	}
	defer q.Close()
	aside, err := setAside(q, s.kind.String())
	if errors.Is(err, fs.ErrNotExist) {
		return "nowhere", nil
	}
	return s.q.ID() + "/" + aside, err
}

// SetState is how far the publishing of a set is.
type SetState struct {
	Queue    string
	Set      Set
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

// State returns the state of all sets, sorted by queue. A queue whose lists
// cannot be opened is left out; the next Tick says why.
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
	st := SetState{Queue: s.q.ID(), Set: s.kind, Event: now.Seq, Read: min(s.mark.seq, now.Seq),
		Open: s.mark.entries, Lists: len(s.lists.all), Waiting: len(s.unpacked()), Packages: len(s.packages.all), Dumps: len(s.dumps),
		Octets: s.octets() + s.mark.length, Err: s.made.failure()}
	if st.Read < st.Event {
		st.Lag = max(0, now.LastEvent.Sub(s.mark.at))
	}
	return st
}
