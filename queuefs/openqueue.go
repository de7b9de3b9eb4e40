package queuefs

import (
	"errors"
	"fmt"
	"io/fs"

	"cutie/queuefs/compare"
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/far"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/properties"
	"cutie/queuefs/snapshot"

	"cutie/queuefs/tree"
)

// newQueue opens the directories of a queue. Its settings must follow.
func (s *Service) newQueue(id string) (*Queue, error) {
	t, err := tree.Open(s.dirs.queues, id, &s.each.trees)
	if err != nil {
		return nil, err
	}
	l := ledger.New(id, s.shared)
	p := packs.New(func() (*durable.Dir, error) { return s.index.Queue(id) })
	q := &Queue{svc: s, ledger: l, tree: t,
		content:    &content.Reader{Ledger: l, Tree: t, Packs: p, Verified: &s.verified, Report: s.each.trees.Report},
		tombstones: newTombstones(l, s.index),
	}
	if s.stored != nil {
		q.content.Far = &far.Files{Ledger: l, Tree: t, Store: s.stored, Report: s.report}
	}
	q.original.Ledger, q.original.Files = l, &s.properties.mirrors
	q.original.Load(s.known.mirrors[id])
	q.properties = properties.Queue{Home: &s.each.properties, File: s.each.properties.Files(t.Root(), id), Ledger: l, Commit: q.commit}
	return q, nil
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

// openBare opens a queue by its directories.
func (s *Service) openBare(id string) (*Queue, error) {
	q, err := s.openQueue(id, (*properties.Queue).Read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", home.QueueInfoName, err)
	}
	// The directories have the jobs. The journal's records of the name were not
	// served, or are of a removed queue, and do not come back.
	if _, err = q.load(s.index.File(id), indexfile.Checkpoint{}, false); err == nil {
		err = errors.Join(s.index.New(q.ledger, s.shared.Journal.Stats().Next), s.index.Sync())
	}
	if err == nil && !q.Mirror().Live() {
		err = q.comparer().Reconcile(false)
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
	if q.from = c.Past; f.At > 0 {
		q.from = min(q.from, f.At) // later, if its directory was lost meanwhile
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
	if q.Mirror().Live() || q.svc.Standby() {
		return nil // its events are those of the original alone, or of the owner
	}
	if q.svc.stored == nil && (was.scanned || was.changed && stopped || was.fresh || beyond) {
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

// comparer compares the directory with the index.
func (q *Queue) comparer() *compare.Comparer {
	return &compare.Comparer{Reader: q.content, Now: q.svc.opts.Now, Commit: q.commit}
}

// loadTombstones finds the file of tombstones in the directory of the index.
func (q *Queue) loadTombstones(dir *durable.Dir) error {
	err := q.tombstones.Load(dir)
	if errors.Is(err, indexfile.ErrTombstones) {
		q.svc.report(snapshot.Path(q.ID(), indexfile.TombstonesName), err.Error()+"; which jobs were culled before is forgotten")
		err = nil
	}
	return err
}
