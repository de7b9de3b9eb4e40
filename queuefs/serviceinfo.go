package queuefs

import (
	"context"
	"fmt"

	"cutie/queuefs/home"
)

// reloadInfo takes in changes of cutie-info.txt by other hands. Changes that
// have to wait for the next opening are reported.
func (s *Service) reloadInfo() {
	r, due, err := s.infoFile.Changed()
	info := &r.Value
	if due && err == nil {
		err = info.Check()
	}
	if !due || transient(err) {
		return
	}
	s.infoFile.Take(r)
	if err != nil {
		s.report(Problem{Path: home.InfoName, Text: err.Error() + "; the properties stay as they were"})
		return
	}
	was, base := s.takeInfo(r)
	if info.BaseURI != base || info.Identifier != was.Identifier || info.Scheme != was.Scheme {
		s.report(Problem{Path: home.InfoName, Text: "changed in baseURI, identifier or serviceScheme, which hold when the home is opened again"})
	}
}

// takeInfo puts the properties that may change while the home is open in force. It
// returns those from before, and the baseURI that the file had.
func (s *Service) takeInfo(r home.Reading[ServiceInfo]) (was ServiceInfo, base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, base = s.info, s.infoBase
	s.info.Take(&r.Value)
	s.info.Modified, s.infoBase = r.Written, r.Value.BaseURI
	return was, base
}

// SetService changes name, description, supportURI, defaultCatalog,
// tombstoneAge or baseURI of the service (Cutie 0.3, 6.2): edit gets the
// properties from cutie-info.txt. They are on stable storage and in force when
// SetService returns, except BaseURI: published documents keep their references
// until the home is opened again. Comments, order and unknown elements stay in
// the file.
func (s *Service) SetService(ctx context.Context, edit func(*ServiceInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.set.Lock()
	defer s.set.Unlock()
	r, err := s.infoFile.Read()
	if err != nil && r.Text == nil {
		return storageError(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; mend the file first", home.InfoName, err)
	}
	info, was := r.Value, r.Value
	if err := edit(&info); err != nil {
		return err
	}
	if info.Identifier != was.Identifier || info.Scheme != was.Scheme || !info.Created.Equal(was.Created) {
		return fmt.Errorf("%w: only name, description, supportURI, defaultCatalog, tombstoneAge and baseURI of the service can change", ErrBadName)
	}
	if err := info.Check(); err != nil {
		return err
	}
	if r, err = s.infoFile.Set(r, info.Changeable()); err != nil {
		return storageError(err)
	}
	s.infoFile.Take(r)
	s.takeInfo(r)
	return nil
}
