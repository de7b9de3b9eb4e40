package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/far"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
)

// Open opens a home: it takes the lock, reads the index, replays the journal
// and then takes in moves by hand from the time nobody had it open. If another
// process has the home open the error is a [*LockedError], and for a home in a store with
// another owner an [*OwnedError].
func Open(dir string, o Options) (*Service, error) {
	s, err := open(dir, o, false)
	for range attempts {
		stale := errors.Is(err, errStale) || errors.Is(err, bucket.ErrPassed)
		if !stale {
			break
		}
		s, err = open(dir, o, true)
	}
	return s, err
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
		return nil, err
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
	s.properties.service = home.ServiceFile(s.dirs.home)
	s.properties.list = home.ListFile(s.dirs.home)
	r, err := s.openInfo(!s.opts.Look)
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
	s.properties.lines.Home = d.home
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
	if d.journal, err = log.MakeSub(home.JournalDir); err != nil {
		log.Close()
		return err
	}
	former, err := s.stored.FormerLog()
	if err != nil {
		log.Close()
		return err
	}
	if former != nil {
		defer former.Close()
	}
	s.index, err = snapshot.Open(snapshot.Options{Log: log, Former: former, Look: s.opts.Look, Rebuild: s.opts.Rebuild,
		Report: s.report, Fail: s.shared.Gate.Fail, Highest: s.highest,
		Published: func(id string) (job.Seq, error) { n, err := home.LastPublished(d.home, id); return job.Seq(n), err }})
	if err != nil {
		log.Close()
		return err
	}
	s.layout = dir.Options{Path: home.QueuesDir, Temp: d.temp, Cache: durable.NewCache(s.opts.Dirs), MaxJobFile: content.MaxJobFile,
		Report: s.report, InDoubt: s.index.InDoubt, Reads: s.opts.Reads}
	s.infoFiles = home.QueueFiles(s.opts.Reads)
	return nil
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

// Unsettled reports whether opening the home for changes would change it: it was not closed
// in order, somebody has changed its files, or leases or holds have ended. It is for homes
// opened with [Options.Look]; what they show is then from before these changes.
func (s *Service) Unsettled() bool { return s.unsettled }

// ClosedInOrder reports whether the process before this one closed the home in order, so that
// all it knew is in the files.
func (s *Service) ClosedInOrder() bool { return s.inOrder }

// looked loads what else readers see of a home that nobody else changes, and finds out
// whether it is unsettled.
func (s *Service) looked(c table.Checkpoint, indexed, lost bool, known *found, was map[*Queue]loaded) error {
	s.unsettled = !c.Clean || !indexed || lost || known.Torn >= 0 || len(known.fresh)+len(known.Unlisted) > 0
	for _, q := range s.Queues() {
		if q.Mirror().Live() {
			continue
		}
		if l := was[q]; l.scanned || l.changed || l.fresh {
			s.unsettled = true
		}
		if err := q.findLeases(); err != nil {
			return fmt.Errorf("queue %s: leases: %w", q.ID(), err)
		}
		now := s.now()
		q.ledger.Look(func(x *index.Index) { s.unsettled = s.unsettled || x.Leases.Passed(now) || x.Holds.Passed(now) })
	}
	return nil
}

// A damaged queues.txt keeps no queue from being served that it still names. The
// directories of others are told; check adds them to the list.

// found are the queues of a home when it is opened.
type found struct {
	home.Known
	trust bool     // the home was closed in order
	fresh []string // listed by other hands, without a directory yet
}

// openAll opens the queues and loads what the index knows of them. Those with a sound row
// in it depend on nothing else, and are opened side by side; numbers of a queue whose
// index is damaged go on above those of all queues opened before it.
func (s *Service) openAll(k *found, load func(*Queue, *snapshot.File) (loaded, error)) (map[*Queue]loaded, error) {
	ids := slices.Concat(k.Listed, k.Unlisted)
	queues, states, errs := make([]*Queue, len(ids)), make([]loaded, len(ids)), make([]error, len(ids))
	open := func(i int) {
		f := s.index.File(ids[i])
		if queues[i], errs[i] = s.openKnown(ids[i], f, k); queues[i] != nil {
			states[i], errs[i] = load(queues[i], f)
		}
	}
	add := func(i int) error {
		if queues[i] != nil {
			s.queues.Add(queues[i])
		}
		if errs[i] != nil {
			return fmt.Errorf("queue %s: %w", ids[i], errs[i])
		}
		return nil
	}
	rest := sideBySide(len(ids), func(i int) bool { return s.index.File(ids[i]).Sound() }, open)
	var first error
	for i := range ids {
		if _, later := slices.BinarySearch(rest, i); !later {
			first = cmp.Or(first, add(i))
		}
	}
	for _, i := range rest {
		if first == nil {
			open(i)
			first = add(i)
		}
	}
	if first != nil {
		return nil, first
	}
	if 0 < len(rest) && len(rest) < len(ids) {
		s.queues.Order(ids)
	}
	was := make(map[*Queue]loaded, len(ids))
	for i, q := range queues {
		was[q] = states[i]
	}
	return was, nil
}

// openKnown opens a queue when the home is opened; nil if it cannot be served.
func (s *Service) openKnown(id string, f *snapshot.File, k *found) (*Queue, error) {
	if lost, err := s.findLost(id, f); lost || err != nil {
		return nil, err
	}
	q, err := s.openQueue(id, func(q *Queue) (*home.Settings, error) { return q.knownSettings(f, k.trust) })
	if err == nil || content.Transient(err) || content.Exhausted(err) {
		return q, err
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		s.report(home.QueuesDir+"/"+id, durable.Bare(err).Error()+"; the queue is not served")
		return nil, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	k.fresh = append(k.fresh, id) // it has no entry, so nobody else does
	return nil, nil
}

// weedOut reports queues with jobs that queues.txt does not list. Others without a line
// never came to be, were removed, or were let go of.
func (s *Service) weedOut(k *found) {
	k.Unlisted = slices.DeleteFunc(k.Unlisted, func(id string) bool {
		q := s.open(id)
		if q != nil && q.ledger.Bare() != nil {
			s.report(home.ListName, "queue "+id+" is not listed, and not served")
			return false
		}
		if q != nil {
			s.known.strays[id] = q.ledger.Numbers()
			s.drop(q)
		}
		return true
	})
}

// takeInKnown makes the queues listed by other hands. Those that are not listed are
// brought up to the journal, which will be released, and are not served. After a loss
// of journal its numbers go on from here.
func (s *Service) takeInKnown(k *found, lost bool) error {
	for _, id := range k.fresh {
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return e
			}
			s.report(home.QueuesDir+"/"+id, err.Error()+"; not served")
		}
	}
	if len(k.Unlisted) == 0 && !lost {
		return nil
	}
	if err := s.checkpoint(allFiles); err != nil {
		return err
	}
	for _, id := range k.Unlisted {
		if q := s.open(id); q != nil {
			s.drop(q)
		}
	}
	return nil
}

// takeIn serves a queue listed by other hands. The error is a [*LostError] if it was here
// before and its directory is missing.
func (s *Service) takeIn(id string) error {
	if _, err := s.findLost(id, s.index.File(id)); err != nil {
		return err
	}
	if err := s.lostError(id); err != nil {
		return err
	}
	root, err := s.dirs.queues.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, job.Instant(s.now()))
		q, err := s.makeQueue(id, info.Text(), 0, s.shared.Journal.Stats().Next)
		if err != nil {
			return err
		}
		if err = s.syncNew(); err == nil {
			err = s.noteMade(q)
		}
		if err != nil {
			q.close()
			return err
		}
		s.add(q)
		return nil
	}
	if err != nil {
		return err
	}
	if s.stored != nil {
		root.Close()
		return fmt.Errorf("a directory by other hands: %w", stored.ErrStored)
	}
	if _, err = root.Stat(home.QueueInfoName); errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, job.Instant(s.now()))
		err = root.Replace(home.QueueInfoName, info.Text())
	}
	root.Close()
	if err != nil {
		return err
	}
	q, err := s.openBare(id)
	if err != nil {
		return err
	}
	s.add(q)
	return nil
}

// newQueue opens the directories of a queue. Its settings must follow.
func (s *Service) newQueue(id string) (*Queue, error) {
	l := ledger.New(id, s.shared)
	d, err := dir.Open(s.dirs.queues, id, &s.layout, l)
	if err != nil {
		return nil, err
	}
	p := packs.New(func() (*durable.Dir, error) { return s.packsOf(id) })
	q := &Queue{svc: s, ledger: l, dir: d, infoFile: s.infoFiles(d.Root(), id),
		content:    &content.Reader{Ledger: l, Dir: d, Packs: p, Verified: &s.verified, Report: s.report},
		tombstones: tombstones{ledger: l, index: s.index},
	}
	if s.stored != nil {
		q.content.Far = &far.Files{Ledger: l, Dir: d, Store: s.stored, Report: s.report}
	}
	q.original.Ledger, q.original.Table = l, s.index.Table
	q.original.Load(s.known.mirrors[id])
	return q, nil
}

// openQueue opens a queue and gives it its properties.
func (s *Service) openQueue(id string, read func(*Queue) (*home.Settings, error)) (*Queue, error) {
	q, err := s.newQueue(id)
	if err != nil {
		return nil, err
	}
	now, err := read(q)
	if err != nil {
		q.close()
		return nil, err
	}
	q.infoFile.Take(now.Reading)
	q.ledger.Use(now)
	first := index.Numbers{Time: now.Created().UnixMicro()}
	if m := q.Mirror(); m != nil && !m.Live() {
		first.Job = m.Job
	}
	q.ledger.Note(func(x *index.Index) { x.Reach(first) })
	return q, nil
}

// openBare opens a queue by its directories.
func (s *Service) openBare(id string) (*Queue, error) {
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", home.QueueInfoName, err)
	}
	// The directories have the jobs. The journal's records of the name were not
	// served, or are of a removed queue, and do not come back.
	if _, err = q.load(s.index.File(id), table.Checkpoint{}, false); err == nil {
		err = errors.Join(s.index.New(q.ledger, s.shared.Journal.Stats().Next), s.index.Sync())
	}
	if err == nil && !q.Mirror().Live() {
		err = q.takeIn(false)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// A loaded queue has what the index knew of it.
type loaded struct {
	scanned bool // the directories were read in the place of pages
	changed bool // they have changed since the index was written
	fresh   bool // there are no pages yet: the journal has all jobs
}

// load reads the index of the queue, or its directories.
func (q *Queue) load(f *snapshot.File, c table.Checkpoint, indexed bool) (was loaded, err error) {
	ix := q.svc.index
	if !q.svc.opts.Look && !c.Clean {
		if err := q.dir.Root().Sweep(nil); err != nil {
			return was, err
		}
	}
	if err := q.tombstones.load(); err != nil {
		return was, err
	}
	switch q.from = c.Past; {
	case f.At > 0:
		q.from = min(q.from, f.At) // later, if its directory was lost meanwhile
	case !ix.Has(q.ID()):
		q.from = c.From() // its directory was lost while there was no index
	}
	found, err := ix.Load(q.ledger, f, indexed)
	if !q.original.Find(q.Mirror()) {
		q.svc.report(snapshot.TablePath,
			"original of queue "+q.ID()+": there is no row; the queue stays a mirror, until a takeover")
	}
	switch {
	case err != nil:
		return was, err
	case found.Fresh:
		return loaded{fresh: true}, nil
	case found.None:
		return loaded{scanned: true}, q.rebuild(nil, found.Former)
	case len(found.Damaged) > 0:
		was.scanned = true
		if err := q.rebuild(found.Damaged, nil); err != nil {
			return was, err
		}
	}
	if err := q.scanPacks(); err != nil {
		return was, err
	}
	at, err := q.dir.Changed()
	was.changed = at != found.Dirs
	return was, err
}

// presumeMirror makes a mirror of the queue, until a takeover, if it may be one: the table of a
// home that has had mirrors is lost, and with it what it said of the queue.
func (q *Queue) presumeMirror(f *snapshot.File) {
	s := q.svc
	if q.Mirror() != nil || f.Sound() || s.stored != nil || !s.index.Missing() || !home.HadMirrors(s.dirs.home) {
		return
	}
	if q.ledger.SetMirrored(true); !s.opts.Look {
		// Committed with the mark that the home is open.
		s.index.Table.Put(table.Mirrors, q.ID(), new(home.Mirror).Text())
	}
}

// finish takes the work of other hands in, after the journal was replayed. stopped says
// that the home was closed in order: the directories rule, except for jobs that were
// replayed. lost says that the operator accepts the loss of journal.
func (q *Queue) finish(was loaded, stopped, lost bool) error {
	// The files of a fresh queue are compared after every crash: losses of the
	// journal are nowhere else.
	beyond := lost || !stopped && q.beyond()
	if q.Mirror().Live() || q.svc.Standby() {
		return nil // its events are those of the original alone, or of the owner
	}
	if q.svc.stored == nil && (was.scanned || was.changed && stopped || was.fresh || beyond) {
		if err := q.takeIn(was.fresh || beyond); err != nil {
			return err
		}
	}
	if err := q.findLeases(); err != nil {
		return fmt.Errorf("leases: %w", err)
	}
	if err := q.announceSettings(); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
		return err
	}
	return nil
}

// beyond reports whether there are payloads of later jobs than the journal has: it
// lost its end, and new jobs would take their numbers.
func (q *Queue) beyond() bool {
	last := q.ledger.Numbers().Job
	for id := last + 1; id < last+4; id++ {
		if _, err := q.dir.StatPayload(id, ""); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// packsOf opens the directory of the packs of a queue, and makes it if need be; to be closed.
func (s *Service) packsOf(id string) (*durable.Dir, error) {
	all, err := s.index.Log.MakeSub(home.PacksDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return all.MakeSub(id)
}

// scanPacks finds the packs of the queue.
func (q *Queue) scanPacks() error {
	all, err := q.svc.index.Log.Sub(home.PacksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	dir, err := all.Sub(q.ID())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if !q.svc.opts.Look {
		if err := dir.Sweep(nil); err != nil {
			return err
		}
	}
	return q.content.Packs.Scan(dir, q.ledger.Look)
}

// dropPacks removes the packs of a queue that is gone.
func (s *Service) dropPacks(id string) error {
	all, err := s.index.Log.Sub(home.PacksDir)
	if err == nil {
		defer all.Close()
		err = all.RemoveTree(id)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
