package queuefs

import (
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/ledger"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/space"
)

// Open opens a home: it takes the lock, reads the index, replays the journal
// and then takes in moves by hand from the time nobody had it open. If another
// process has the home open the error is a [*LockedError].
func Open(dir string, o Options) (_ *Service, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Behind == 0 {
		o.Behind = 1 << 30
	}
	s := &Service{opts: o, shared: &ledger.Shared{Gate: ledger.NewGate(), Now: o.Now}}
	s.list.byID = map[string]*Queue{}
	s.reports = home.NewReports(dir, o.Report)
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	lock := home.Lock
	if s.dirs.home, err = durable.OpenDir(dir, o.Fault); o.Look && err == nil {
		lock = home.LockToLook
		s.dirs.home.Close()
		s.dirs.home, err = durable.LookIn(dir)
	}
	if err != nil {
		return nil, err
	}
	if err := home.CheckTag(s.dirs.home, s.reports.Add); err != nil {
		return nil, err
	}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	s.space = &space.Space{Home: s.dirs.home, Shared: s.shared, Limit: o.Behind}
	if err := s.openDirs(); err != nil {
		return nil, err
	}
	if err := s.readInfo(); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if o.Look {
		s.shared.Gate.Fail(errLook)
		return s, nil
	}
	if err := s.beginAgain(); err != nil {
		return nil, err
	}
	return s, nil
}

// errLook is the error of changes in a home opened with [Options.Look].
var errLook = errors.New("home opened for reading")

// readInfo reads cutie-info.txt when the home is opened. A damaged file does not keep
// it shut if the index has a copy.
func (s *Service) readInfo() error {
	s.properties.service, s.properties.list = home.ServiceFile(s.dirs.home), home.ListFile(s.dirs.home)
	r, err := s.properties.service.Read()
	if err != nil && content.Transient(err) {
		return err
	}
	kept, e := s.index.Service()
	switch {
	case e != nil:
		return e
	case err != nil && kept == nil && r.Text != nil:
		return fmt.Errorf("%s: %w", home.InfoName, err)
	case err != nil && kept == nil:
		return err
	case err != nil:
		s.serviceBad = bare(err).Error() + "; the last known properties hold"
		s.report(home.InfoName, s.serviceBad)
		if r, err = s.properties.service.Instead(r, kept, s.serviceBad); err != nil {
			return err
		}
	case kept == nil || string(kept) == string(r.Text):
	default:
		s.report(home.InfoName, "edited by other hands: "+home.Differences(kept, r.Text))
	}
	s.properties.service.Take(r)
	s.list.info, s.list.base = r.Value, r.Value.BaseURI
	s.list.info.Modified = r.Written
	if string(kept) == string(r.Text) || s.opts.Look {
		return nil
	}
	return s.index.KeepService(r.Text)
}

// openDirs opens the directories of the home and makes the program's own.
func (s *Service) openDirs() (err error) {
	d := &s.dirs
	if d.queues, err = home.OpenQueues(d.home); err != nil {
		return err
	}
	if d.temp, err = d.home.MakeSub(home.TempDir); err != nil {
		return err
	}
	log, err := d.home.MakeSub(home.LogDir)
	if err != nil {
		return err
	}
	defer log.Close()
	ix, err := log.MakeSub(home.IndexDir)
	if err != nil {
		return err
	}
	s.index = &snapshot.Store{Dir: ix, Report: s.report, Highest: s.highest, Rebuild: s.opts.Rebuild}
	d.journal, err = log.MakeSub(home.JournalDir)
	return err
}

// Close ends the service: it waits for changes on their way, brings all files
// up to the journal, checkpoints, and lets go of the home.
func (s *Service) Close() error {
	if !s.shared.Gate.Close() {
		return nil
	}
	err := s.Err()
	switch {
	case err == nil:
		err = s.checkpoint(true)
	case s.opts.Look:
		err = nil
	}
	return errors.Join(err, s.closeFiles())
}

// closeFiles closes everything that is open.
func (s *Service) closeFiles() error {
	var errs []error
	if s.shared.Journal != nil {
		errs = append(errs, s.shared.Journal.Close())
	}
	for _, q := range s.list.queues {
		q.close()
	}
	if s.index != nil {
		errs = append(errs, s.index.Dir.Close())
	}
	for _, d := range []*durable.Dir{s.dirs.home, s.dirs.temp, s.dirs.queues, s.dirs.journal} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
