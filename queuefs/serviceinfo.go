package queuefs

import (
	"context"
	"fmt"
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/job"
)

// reloadInfo takes in changes of cutie-info.txt by other hands. Changes that
// have to wait for the next opening are reported.
func (s *Service) reloadInfo() {
	now, changed, err := stampOf(s.home, infoName)
	if err == nil && !s.infoWatch.changed(now) {
		return
	}
	var data []byte
	if err == nil {
		data, err = s.home.ReadFile(infoName, nil, 1<<20)
	}
	var info ServiceInfo
	if err == nil {
		if info, err = parseServiceInfo(data); err == nil {
			err = info.check()
		}
	}
	if transient(err) {
		return
	}
	s.infoWatch.read = now
	if err != nil {
		s.report(Problem{Path: infoName, Text: err.Error() + "; the properties stay as they were"})
		return
	}
	s.mu.Lock()
	was, base := s.info, s.infoBase
	s.info.take(&info)
	s.info.Modified = changed
	s.infoBase = info.BaseURI
	s.mu.Unlock()
	if info.BaseURI != base || info.Identifier != was.Identifier || info.Scheme != was.Scheme {
		s.report(Problem{Path: infoName, Text: "changed in baseURI, identifier or serviceScheme, which hold when the home is opened again"})
	}
}

// take takes the properties that may change while the home is open.
func (info *ServiceInfo) take(n *ServiceInfo) {
	info.Name, info.Description, info.SupportURI, info.DefaultCatalog = n.Name, n.Description, n.SupportURI, n.DefaultCatalog
	info.TombstoneAge = n.TombstoneAge
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
	data, err := s.home.ReadFile(infoName, nil, 1<<20)
	if err != nil {
		return storageError(err)
	}
	was, err := parseServiceInfo(data)
	if err != nil {
		return fmt.Errorf("%s: %w; mend the file first", infoName, err)
	}
	doc, err := anvl.ParseDocument(data)
	if err != nil {
		return err
	}
	info := was
	if err := edit(&info); err != nil {
		return err
	}
	if info.Identifier != was.Identifier || info.Scheme != was.Scheme || !info.Created.Equal(was.Created) {
		return fmt.Errorf("%w: only name, description, supportURI, defaultCatalog, tombstoneAge and baseURI of the service can change", ErrBadName)
	}
	if err := info.check(); err != nil {
		return err
	}
	text := rewrite(doc, info.changeable())
	if string(text) != string(data) {
		if err := s.home.Replace(infoName, text); err != nil {
			return storageError(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.take(&info)
	s.infoBase = info.BaseURI
	if stamp, changed, err := stampOf(s.home, infoName); err == nil {
		s.infoWatch.read, s.info.Modified = stamp, changed
	}
	return nil
}

// changeable are the properties that may be set later.
func (info *ServiceInfo) changeable() anvl.Record {
	return anvl.Record{{Name: "name", Value: info.Name}, {Name: "description", Value: info.Description},
		{Name: "baseURI", Value: info.BaseURI}, {Name: "supportURI", Value: info.SupportURI},
		{Name: "defaultCatalog", Value: info.DefaultCatalog}, {Name: "tombstoneAge", Value: info.tombstoneAge()}}
}

func (info *ServiceInfo) tombstoneAge() string {
	if info.TombstoneAge == 0 {
		return ""
	}
	return strconv.FormatInt(info.TombstoneAge, 10)
}

func (info *ServiceInfo) check() error {
	if info.TombstoneAge < 0 || info.TombstoneAge > 876_000 {
		return fmt.Errorf("%w: tombstoneAge is 0 to 876000 hours", ErrBadName)
	}
	if err := checkURI("baseURI", info.BaseURI); err != nil {
		return err
	}
	for _, v := range []*string{&info.Name, &info.Description, &info.SupportURI, &info.DefaultCatalog} {
		if len(*v) > 4*job.MaxLabel {
			return fmt.Errorf("service property: %w", ErrTooBig)
		}
		*v = job.CleanLabel(*v)
	}
	return nil
}
