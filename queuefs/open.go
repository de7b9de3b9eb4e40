package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"

	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
	"cutie/queuefs/properties"
	"cutie/queuefs/snapshot"

	"cutie/queuefs/stored"
	"cutie/queuefs/tree"
)

// Open opens a home: it takes the lock, reads the index, replays the journal
// and then takes in moves by hand from the time nobody had it open. If another
// process has the home open the error is a [*LockedError], and for a home in a store with
// another owner an [*OwnedError].
func Open(dir string, o Options) (*Service, error) {
	s, err := open(dir, o, false)
	for range attempts {
		stale := errors.Is(err, errStale) || errors.Is(err, bucket.ErrPassed)
		if !stale && !errors.Is(err, errAside) {
			break
		}
		s, err = open(dir, o, stale)
	}
	return s, err
}

// errAside: files of the index that cannot be read were set aside.
var errAside = errors.New("files of the index that cannot be read were set aside")

// withoutUnreadable returns errAside if files of the index cannot be read, which are set
// aside then, and else the error err of an opening.
func (s *Service) withoutUnreadable(err error) error {
	of, is := errors.AsType[*fs.PathError](err)
	switch {
	case !is || content.Exhausted(err):
		return err
	case s.opts.Look && strings.Contains(of.Path, "/"+home.LogDir+"/"+home.IndexDir+"/"):
		return fmt.Errorf("%w; the file is derived: a start of the daemon, or cutie check --repair, sets it aside and makes it again", err)
	case s.opts.Look:
		return err
	}
	log, e := s.dirs.home.Sub(home.LogDir)
	if e != nil {
		return err
	}
	defer log.Close()
	n, e := snapshot.SetAsideUnreadable(log, s.report)
	switch {
	case e != nil:
		return errors.Join(err, e)
	case n > 0:
		return fmt.Errorf("%w: %w", errAside, err)
	}
	return err
}

// attempts is how often a standby is opened whose owner has meanwhile made two images and
// released the journal before them.
const attempts = 10

// open is Open. With anew the directory of a home in a store is made again.
func open(dir string, o Options, anew bool) (_ *Service, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Behind, o.Dirs = cmp.Or(o.Behind, 3<<29), cmp.Or(o.Dirs, 512)
	s := &Service{opts: o, shared: &ledger.Shared{Gate: ledger.NewGate(), Now: o.Now}}
	s.reports = home.NewReports(dir, o.Report)
	defer func() {
		if err != nil {
			if s.stored != nil {
				err = s.stored.Kept(err)
			}
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
	if err := home.CheckMade(s.dirs.home); err != nil && !o.Making { // it may be without its tag
		return nil, err
	}
	if err := home.CheckTag(s.dirs.home, s.reports.Add); err != nil {
		return nil, err
	}
	if err := home.CheckForeign(dir); err != nil {
		return nil, err
	}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	switch {
	case o.Stored != nil:
		s.stored, err = stored.Open(context.Background(), s.dirs.home, o.Stored, anew, s.shared.Gate.Fail)
	case o.PushTo != nil:
		s.push, err = stored.OpenPush(context.Background(), s.dirs.home, o.PushTo)
	default:
		err = stored.Refuse(s.dirs.home)
	}
	if err != nil {
		return nil, err
	}
	if s.stored != nil {
		for _, d := range s.stored.Images.Damage() {
			s.report("store: "+d.Name, d.Text+"; another image stands in for it")
		}
		if lost := s.stored.Images.Lost(); lost != nil {
			s.report("store: images", lost.Error()+"; the next image stands in for them")
		}
	}
	s.space = &diskSpace{Home: s.dirs.home, Shared: s.shared, Limit: o.Behind}
	if err := s.openDirs(); err != nil {
		return nil, err
	}
	info, err := s.readInfo()
	if err == nil {
		err = s.load()
	}
	if err != nil {
		return nil, s.withoutUnreadable(err)
	}
	if o.Look {
		s.shared.Gate.Fail(errLook)
		return s, nil
	}
	if err := s.beginAgain(); err != nil {
		return nil, err
	}
	if k := s.madeOf(); !s.Standby() && (k == nil || !k.Imaged && k.Service == "") { // else it is what the store has
		if err := s.noteService(info); err != nil {
			return nil, err
		}
	}
	err = s.stored.Ready()
	if err == nil && !s.Coming() {
		err = s.Published()
	}
	return s, err
}

// madeOf returns of what the directory was made again from a store; nil: it was not.
func (s *Service) madeOf() *stored.Known {
	if s.stored == nil {
		return nil
	}
	return s.stored.Known
}

// Published waits for the published documents. Set followers after it. Until then queues
// stay as they are, and no job is culled.
func (s *Service) Published() error {
	err := s.stored.Published()
	if s.stored != nil && s.stored.Lost != nil {
		s.report("store: "+s.stored.Lost.Name, s.stored.Lost.Text+"; what was published is made anew")
	}
	return err
}

// readInfo reads cutie-info.txt when the home is opened, and returns its text.
func (s *Service) readInfo() ([]byte, error) {
	s.properties.service = properties.Service{File: home.ServiceFile(s.dirs.home), Index: s.index, Report: s.report}
	s.properties.list = home.ListFile(s.dirs.home)
	r, err := s.properties.service.Open(!s.opts.Look)
	if err != nil {
		return nil, err
	}
	s.known.info, s.known.base = *r.Value, r.Value.BaseURI
	s.known.info.Modified = r.Written
	return r.Text, nil
}

// openDirs opens the directories of the home and makes the program's own.
func (s *Service) openDirs() (err error) {
	d := &s.dirs
	s.properties.callbacks.Home, s.properties.lines.Home, s.properties.mirrors.Home = d.home, d.home, d.home
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
	s.index = &snapshot.Store{Dir: ix, Report: s.report, Highest: s.highest, Rebuild: s.opts.Rebuild, Own: s.opts.OwnIndex,
		Published: func(id string) (Seq, error) { n, err := home.LastPublished(d.home, id); return Seq(n), err }}
	s.each.trees = tree.Options{Path: home.QueuesDir, Temp: d.temp, Cache: durable.NewCache(s.opts.Dirs), MaxJobFile: content.MaxJobFile, Report: s.report, Reads: s.opts.Reads}
	s.each.properties = properties.Home{Files: home.QueueFiles(s.opts.Reads), Now: func() time.Time { return job.Instant(s.now()) }, Report: s.report}
	s.each.inDoubt = s.index.InDoubt
	d.journal, err = log.MakeSub(home.JournalDir)
	return err
}

// StopWithin says that the service is to be closed, and that files are written for so
// long, by Close too. Jobs whose files are behind the journal then have them written
// after the next opening, and nothing is lost.
func (s *Service) StopWithin(d time.Duration) { s.space.StopWithin(d) }

// Close ends the service: it waits for changes on their way, brings all files
// up to the journal, checkpoints, and lets go of the home.
func (s *Service) Close() error {
	if !s.shared.Gate.Close() {
		return nil
	}
	if s.stored != nil {
		s.stored.Images.Stop()
	}
	err := s.Err()
	switch {
	case err == nil:
		if err = s.checkpoint(inTime); err == nil {
			err = s.stored.Move()
		}
	case s.opts.Look:
		err = nil
	}
	return errors.Join(err, s.closeFiles())
}

// closeFiles closes everything that is open.
func (s *Service) closeFiles() error {
	var errs []error
	if s.stored != nil {
		errs = append(errs, s.stored.Close())
	} else if s.shared.Journal != nil {
		errs = append(errs, s.shared.Journal.Close())
	}
	errs = append(errs, s.push.Close())
	for _, q := range s.Queues() {
		q.close()
	}
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	for _, d := range []*durable.Dir{s.dirs.home, s.dirs.temp, s.dirs.queues, s.dirs.journal} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
