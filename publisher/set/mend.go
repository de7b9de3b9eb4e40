package set

import (
	"errors"
	"fmt"
	"io/fs"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs/durable"
)

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
func (s *Set) mend(err error) error {
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
func (s *Set) reread(cause error) error {
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
	s.healed.Add(1)
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
func (s *Set) setAside(d *durable.Dir, name string) (string, error) {
	aside, err := store.SetAside(d, name)
	if store.Absent(err) {
		return "nowhere", nil
	}
	return aside, err
}

// want asks for a Resource Dump, if the set has one: clients that come too late for the
// Change Lists begin with it. s.mu is held.
func (s *Set) want() {
	if s.files.Dump(0) != nil {
		s.made.wanted = s.Queue.Seq()
	}
}

// earliest returns the open list that begins after the last closed list, or later, where
// the journal begins.
func (s *Set) earliest() (store.OpenList, error) {
	at, err := Earliest(s.Queue)
	if err != nil {
		return at, err
	}
	if last := s.files.Lists.Last(); last.Last > 0 && last.Last >= at.Read {
		return store.NewOpenList(last.Last, last.Until), nil
	}
	return at, nil
}

// restart sets all files aside and begins a list where the journal does. s.mu is held.
func (s *Set) restart(cause error) error {
	aside, err := s.Store.SetAside(s.Queue.ID(), s.Kind.String())
	if err != nil {
		return errors.Join(cause, err)
	}
	s.Reportf(s.Path, "%v; moved to %s, a new Change List begins", cause, aside)
	s.reset(s.ListNow())
	at, err := s.earliest()
	if err == nil {
		s.begin(at)
		s.made.packed = at.Read
	}
	return nil
}
