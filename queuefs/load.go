package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/compare"
	"cutie/queuefs/content"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/segment"
	"cutie/queuefs/properties"
	"cutie/queuefs/record"
	"cutie/queuefs/snapshot"
)

// load brings what is known to the last acknowledged state: index, then journal.
// Where the index is missing or damaged the directories stand in for it.
func (s *Service) load() error {
	if err := s.tidy(); err != nil {
		return err
	}
	c, indexed, err := s.index.Checkpoint()
	if err != nil {
		return err
	}
	if err := s.index.Open(c); err != nil {
		return err
	}
	s.index.ReadDoubt()
	if s.known.mirrors, err = s.properties.mirrors.All(!s.opts.Look); err != nil {
		return err
	}
	var known found
	if known.Known, err = home.Find(s.dirs.home, s.dirs.queues, s.report); err != nil {
		return err
	}
	if known.Torn >= 0 {
		s.properties.lines.Torn(known.Torn)
	}
	if c.Clean { // the files are exact
		known.Unlisted = slices.DeleteFunc(known.Unlisted, func(id string) bool { return !home.Used(s.dirs.queues, id) })
	}
	known.trust = c.Clean && !s.opts.ReadAll && !s.opts.Look
	was, err := s.openAll(&known, func(q *Queue, f *snapshot.File) (loaded, error) { return q.load(f, c, indexed) })
	if err != nil {
		return err
	}
	lost, err := s.replay(c, indexed)
	if err != nil {
		return err
	}
	s.weedOut(&known)
	if err := s.retireStrays(); err != nil && !s.opts.Look && !errors.Is(storageError(err), ErrNoSpace) {
		return err
	}
	for _, q := range s.Queues() {
		if err := q.properties.Replayed(); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	if s.opts.Look {
		return nil
	}
	if err := s.sweepTemps(); err != nil {
		return err
	}
	for _, q := range s.Queues() {
		if err := q.finish(was[q], c.Clean || c.Stopped, lost); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		q.ledger.Wake()
	}
	// After a crash before this, the next start takes in the rest of the
	// changes by hand.
	if c.Clean || c.Stopped || c.Former || !indexed {
		if err := s.index.MarkOpen(c); err != nil {
			return err
		}
	}
	s.space.Opened()
	s.upkeep.last = s.opts.Now()
	s.shared.MaxAppend = s.shared.Journal.Stats().MaxAppend
	s.shared.Inline = min(content.Inline, s.shared.MaxAppend/4)
	s.space.Keep()
	return s.takeInKnown(&known, lost)
}

// tidy removes what a crash has left unfinished.
func (s *Service) tidy() error {
	if s.opts.Look {
		return nil
	}
	return errors.Join(s.sweepRemoved(), s.dirs.home.Sweep(nil), s.index.Dir.Sweep(nil), s.properties.callbacks.Sweep())
}

// openQueue opens a queue and gives it its properties.
func (s *Service) openQueue(id string, read func(*properties.Queue) (*home.Settings, error)) (*Queue, error) {
	q, err := s.newQueue(id)
	if err != nil {
		return nil, err
	}
	now, err := read(&q.properties)
	if err != nil {
		q.close()
		return nil, err
	}
	q.properties.File.Take(now.Reading)
	q.ledger.Use(now)
	first := index.Numbers{Time: now.Created().UnixMicro()}
	if m := q.Mirror(); m != nil && !m.Live() {
		first.Job = m.Job
	}
	q.ledger.Note(func(x *index.Index) { x.Reach(first) })
	return q, nil
}

// A loaded queue has what the index knew of it.
type loaded struct {
	scanned bool // the directories were read in the place of pages
	changed bool // they have changed since the index was written
	fresh   bool // there are no pages yet: the journal has all jobs
}

// load reads the index of the queue, or its directories.
func (q *Queue) load(f *snapshot.File, c indexfile.Checkpoint, indexed bool) (was loaded, err error) {
	ix := q.svc.index
	if !q.svc.opts.Look && !c.Clean {
		if err := q.tree.Root().Sweep(nil); err != nil {
			return was, err
		}
	}
	if ix.HasDir(q.ID()) {
		dir, err := ix.Queue(q.ID())
		if err != nil {
			return was, err
		}
		defer dir.Close()
		if !q.svc.opts.Look {
			err = dir.Sweep(nil)
		}
		if err := errors.Join(err, q.loadTombstones(dir)); err != nil {
			return was, err
		}
	}
	found, err := ix.Load(q.ledger, f, c, indexed)
	if !q.original.Find(q.Mirror()) {
		q.svc.report(home.MirrorsDir+"/"+q.ID(), "missing; the queue stays a mirror, until a takeover")
	}
	q.look(func(x *index.Index) {
		if x.Tombstones.InFile() < found.Culled {
			q.svc.report(snapshot.Path(q.ID(), indexfile.TombstonesName), "tombstones lost; which of these jobs were culled is forgotten")
		}
	})
	switch {
	case err != nil:
		return was, err
	case found.Fresh:
		return loaded{fresh: true}, nil
	case found.None:
		return loaded{scanned: true}, q.comparer().Scan(nil, found.Former)
	case len(found.Damaged) > 0:
		was.scanned = true
		if err := q.comparer().Scan(found.Damaged, nil); err != nil {
			return was, err
		}
	}
	if ix.HasDir(q.ID()) {
		dir, err := ix.Queue(q.ID())
		if err != nil {
			return was, err
		}
		defer dir.Close()
		if err := q.content.Packs.Scan(dir, q.look); err != nil {
			return was, err
		}
	}
	at, err := q.tree.Changed()
	was.changed = at != found.Dirs
	return was, err
}

// finish takes the work of other hands in, after the journal was replayed. stopped says
// that the home was closed in order: the directories rule, except for jobs that were
// replayed. lost says that the operator accepts the loss of journal.
func (q *Queue) finish(was loaded, stopped, lost bool) error {
	// The files of a fresh queue are compared after every crash: losses of the
	// journal are nowhere else.
	beyond := lost || !stopped && q.beyond()
	if q.Mirror().Live() {
		return nil // its events are those of the original alone
	}
	if was.scanned || was.changed && stopped || was.fresh || beyond {
		if err := q.comparer().Reconcile(was.fresh || beyond); err != nil {
			return err
		}
	}
	if err := q.findLeases(); err != nil {
		return fmt.Errorf("leases: %w", err)
	}
	if err := q.properties.Announce(); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return nil
}

// beyond reports whether there are payloads of later jobs than the journal has: it
// lost its end, and new jobs would take their numbers.
func (q *Queue) beyond() bool {
	last := q.ledger.Numbers().Job
	for id := last + 1; id < last+4; id++ {
		if _, err := q.tree.StatPayload(id, ""); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// replay opens the journal and applies the records after the checkpoint, by the
// code of normal use. lost says that the journal does not reach the index, and that
// this is accepted.
func (s *Service) replay(c indexfile.Checkpoint, indexed bool) (lost bool, err error) {
	found := func(reach journal.LSN) error {
		if lost = indexed && !c.Reached(reach); !lost {
			return nil
		}
		path := home.LogDir + "/" + home.JournalDir
		switch {
		case s.opts.AcceptLoss:
			s.report(path, lostJournal+"; the directories stand in for it")
		case s.opts.Look:
			s.report(path, lostJournal)
		default:
			return fmt.Errorf("%s: %w", path, ErrJournalLost)
		}
		return nil
	}
	err = s.replayFrom(c, found)
	return lost, err
}

func (s *Service) replayFrom(c indexfile.Checkpoint, found func(journal.LSN) error) error {
	path := home.LogDir + "/" + home.JournalDir
	log, err := segment.Open(s.dirs.journal, segment.Options{Found: found, Look: s.opts.Look, From: c.From(), Batch: c.Batch, Size: s.opts.Segment, Spare: s.space.ForSegment,
		Report: func(name, text string) { s.report(path+"/"+name, text) }})
	if err != nil {
		return err
	}
	s.shared.Journal = log
	s.upkeep.past, s.upkeep.keep = c.Past, c.From()
	if st := log.Stats(); s.upkeep.keep == 0 && st.First < st.Next {
		s.upkeep.keep = st.First // a follower without a checkpoint wants everything
	}
	s.known.strays = map[string]index.Numbers{}
	var r record.Record
	for rec, err := range log.Read(0) {
		if err == nil {
			err = r.Parse(rec.Data)
		}
		if err != nil {
			return err
		}
		s.replayed(&r, rec.LSN, len(rec.Data))
	}
	return nil
}

// replayed takes in a record of size bytes. Those before the checkpoint are kept for
// followers.
func (s *Service) replayed(r *record.Record, at journal.LSN, size int) {
	q := s.open(r.Queue)
	if q == nil {
		s.known.strays[r.Queue] = s.known.strays[r.Queue].Max(index.Numbers{Job: r.Job, Seq: r.Seq})
	}
	past := s.upkeep.past
	switch {
	case q != nil && at < q.ledger.Since():
		// Of a removed queue of the name.
	case q == nil && at < past:
		// Of a removed queue.
	case q == nil:
		s.report(home.LogDir+"/"+home.JournalDir, fmt.Sprintf("events of queue %q, which %s does not list, passed over", r.Queue, home.ListName))
	case at < past:
		q.ledger.Remember(r, at)
	default:
		q.ledger.Replay(r, at, q.tree.HasResults)
		s.space.Replayed(size)
	}
}

// sweepTemps removes payloads without jobs.
func (s *Service) sweepTemps() error {
	wanted := map[string]bool{}
	for _, q := range s.Queues() {
		q.ledger.Temps(func(name string) { wanted[name] = true })
	}
	return s.dirs.temp.Sweep(func(name string) bool { return wanted[name] })
}

// beginAgain is for a journal taken away by other hands: its numbers begin
// anew, and new records must not be taken for those of former queues.
func (s *Service) beginAgain() error {
	at, late := s.shared.Journal.Stats().Next, false
	for _, q := range s.Queues() {
		if q.ledger.Since() > at {
			q.ledger.Begin(at, q.ledger.Before())
			q.ledger.Note(func(x *index.Index) { x.Changed = true })
			late = true
		}
	}
	if !late {
		return nil
	}
	return s.checkpoint(false)
}

// comparer compares the directory with the index.
func (q *Queue) comparer() *compare.Comparer {
	return &compare.Comparer{Reader: q.content, Now: q.svc.opts.Now, Commit: q.commit}
}
