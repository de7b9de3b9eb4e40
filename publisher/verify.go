package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Every file of a set is verified when it is opened first, and again after a change of
// the file; a background reader reads all of them, see Scrub. A damaged file is
// answered with 503 until the next Tick has made it again or set it aside, see heal.

// entriesOf opens the entries of the Change List from the event first on, verified up to
// length. s.mu is not held.
func (s *set) entriesOf(first queuefs.Seq, length int64) (*os.File, error) {
	s.mu.Lock()
	sp, closed := s.Lists.Find(first)
	if !closed && first == s.at.First {
		defer s.mu.Unlock()
		file, err := s.openGrowing()
		if err != nil && store.Unusable(err) {
			return nil, errors.Join(s.mend(lostList(err)), &brokenFile{names.EntriesFile(first)})
		}
		return file, err
	}
	s.mu.Unlock()
	if !closed || length > sp.Length {
		return nil, fmt.Errorf("%s: %w", names.EntriesFile(first), fs.ErrNotExist) // removed, or lost
	}
	return s.openPiece(sp.List())
}

// openGrowing opens the entries of the open list, verified. s.mu is held.
func (s *set) openGrowing() (*os.File, error) {
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

// openPiece opens a file of a closed list or a package, verified. s.mu is not held.
func (s *set) openPiece(p store.Piece) (*os.File, error) {
	file, err := s.verified(p)
	if err != nil && store.Unusable(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(p.Name, err)
		return nil, &brokenFile{p.Name}
	}
	return file, err
}

// openFile opens a file in the directory of the set for reading.
func (s *set) openFile(name string) (*os.File, error) {
	d, err := s.dir()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(name)
}

func (s *set) verified(p store.Piece) (*os.File, error) {
	file, err := s.openFile(p.Name)
	if err != nil {
		return nil, err
	}
	if err = s.p.store.Verify(file, p); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// note remembers a damaged file for the next Tick. s.mu is held.
func (s *set) note(name string, err error) {
	if s.damaged == nil {
		s.damaged = make(map[string]error)
	}
	if s.damaged[name] == nil {
		s.damaged[name] = err
		s.p.damage.Store(true)
	}
}

// A brokenFile is the answer while a file is damaged.
type brokenFile struct{ name string }

func (e *brokenFile) Error() string {
	return e.name + " is damaged and is made again, if that can be: try again in a few seconds"
}

// HTTPStatus makes the error an answer with its text.
func (e *brokenFile) HTTPStatus() int { return http.StatusServiceUnavailable }

// lost reports whether the list or the package of a document is lost for good.
func (s *set) lost(doc names.Doc) bool {
	of := &s.Lists
	switch doc.Kind {
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		of = &s.Packages
	case names.ClosedList:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range of.All {
		if of.All[i].First == queuefs.Seq(doc.N) {
			return of.All[i].Lost()
		}
	}
	return false
}

// survey looks for files that are absent or have another length. s.mu is held.
func (s *set) survey(d *durable.Dir) error { return s.Survey(d, s.note) }

// openGzip opens the file of a closed list in gzip, verified: its text has the digest of
// the list. The error is [fs.ErrNotExist] if there is none. A damaged one is made again
// from the list.
func (s *set) openGzip(sp store.Span) (*os.File, error) {
	file, err := s.openFile(names.GzipFile(sp.First))
	if err != nil {
		return nil, err
	}
	if err = s.p.store.VerifyGzip(file, sp); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// A listError is about the file of the open list.
type listError struct{ error }

func (e listError) Unwrap() error { return e.error }

// lostList marks an error as one about the file of the open list.
func lostList(err error) error {
	if err == nil {
		return nil
	}
	return listError{err}
}

// mend makes unusable files anew, and returns every other error. All in resourcesync
// is derived, so the queue goes on without it. After an error of storage the engine
// keeps its events, and the same is tried again. s.mu is held.
func (s *set) mend(err error) error {
	if err == nil || !store.Unusable(err) {
		return err
	}
	var list listError
	if errors.As(err, &list) && !errors.Is(err, fs.ErrPermission) {
		err := s.reread(err)
		if err == nil || !store.Unusable(err) {
			return err
		}
	}
	return s.restart(err)
}

// reread sets the file of the open list aside. The list is made again from the journal,
// as far as that reaches back; before a gap the index names no list. s.mu is held.
func (s *set) reread(cause error) error {
	d, err := s.makeDir()
	if err != nil {
		return err
	}
	defer d.Close()
	at, err := s.earliest()
	if err != nil {
		return err
	}
	aside, err := s.setAside(d, names.EntriesFile(s.at.First))
	if err != nil {
		return err
	}
	s.p.healed.Add(1)
	how := "made again from the journal"
	if at.First > s.at.First {
		how = fmt.Sprintf("events %d to %d are gone; a new Change List begins", s.at.First, at.First-1)
		s.want()
	}
	s.report(names.EntriesFile(s.at.First), "%v; moved to %s, %s", cause, aside, how)
	s.begin(at)
	return s.survey(d)
}

// setAside moves a file of the set out of the way, and returns where to.
func (s *set) setAside(d *durable.Dir, name string) (string, error) {
	aside, err := store.SetAside(d, name)
	if store.Absent(err) {
		return "nowhere", nil
	}
	return aside, err
}

// want asks for a Resource Dump, if the set has one: clients that come too late for the
// Change Lists begin with it. s.mu is held.
func (s *set) want() {
	if s.Dump(0) != nil {
		s.made.wanted = s.q.Seq()
	}
}

// earliest returns the open list that begins after the last closed list, or later, where
// the journal begins.
func (s *set) earliest() (store.OpenList, error) {
	at, err := earliest(s.q)
	if err != nil {
		return at, err
	}
	if last := s.Lists.Last(); last.Last > 0 && last.Last >= at.Read {
		return store.NewOpenList(last.Last, last.Until), nil
	}
	return at, nil
}

// restart sets all files aside and begins a list where the journal does. s.mu is held.
func (s *set) restart(cause error) error {
	aside, err := s.p.store.SetAside(s.q.ID(), s.kind.String())
	if err != nil {
		return errors.Join(cause, err)
	}
	s.p.Reportf(s.path, "%v; moved to %s, a new Change List begins", cause, aside)
	s.reset(s.listNow())
	at, err := s.earliest()
	if err == nil {
		s.begin(at)
		s.made.packed = at.Read
	}
	return nil
}
