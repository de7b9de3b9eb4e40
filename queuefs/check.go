package queuefs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/compare"
	"cutie/queuefs/durable"
	"cutie/queuefs/foreign"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/snapshot"
)

// CheckOptions are the changes allowed to [Check].
type CheckOptions struct {
	Repair  bool             // mend damage where possible
	Rebuild bool             // forget the index and make it from the directories; make missing parts of the home
	Now     func() time.Time // nil means time.Now
	Segment int64            // as in Options
	// Last are the last events of queues that went on elsewhere, by identifier: with
	// Rebuild their events here have higher numbers.
	Last map[string]Seq
	// Job returns why the unknown elements of a job file make no sense to another
	// room; nil: nobody looks at them.
	Job func(*Job) error
}

// A Report is the result of a check.
type Report = compare.Report

// Check opens the home in dir, which nobody else may have open, and compares
// the whole of it: each job has one job file, in the directory of its status,
// equal to the index, and a payload and results with their digests, and
// queue-info.txt makes sense. Even without Repair it does the same as opening a
// home: it replays the journal and takes in moves by hand. On a full disk it
// leaves out the jobs behind the journal.
func Check(dir string, o CheckOptions) (r Report, err error) {
	found := func(p Problem) { r.Mended = append(r.Mended, p) }
	if o.Rebuild {
		if err := rebuild(dir, o, found); err != nil {
			return r, err
		}
	}
	s, err := Open(dir, Options{Report: found, Now: o.Now, Segment: o.Segment})
	if err != nil {
		return r, err
	}
	defer func() {
		if e := s.Close(); e != nil && (o.Repair || o.Rebuild || !errors.Is(e, ErrNoSpace)) {
			err = errors.Join(err, e)
		}
	}()
	if err := s.fileNow(); err != nil {
		return r, err
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.checkSettings(&r, o.Repair); err != nil {
			return r, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		c := q.comparer()
		c.Sense = o.Job
		if err := c.Check(&r, o.Repair); err != nil {
			return r, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	// What was reported on the way and is still wrong was not mended.
	r.Mended = slices.DeleteFunc(r.Mended, func(p Problem) bool {
		return slices.ContainsFunc(r.Problems, func(still Problem) bool { return still.Path == p.Path })
	})
	return r, nil
}

// fileNow brings all files up to the journal, as far as there is space.
func (s *Service) fileNow() error {
	at := s.shared.Journal.Stats().Next
	err := s.makeSpace()
	for _, q := range s.Queues() {
		if err == nil {
			err = q.filer.UpTo(at)
		}
	}
	if errors.Is(storageError(err), ErrNoSpace) {
		return nil
	}
	return err
}

// checkSettings reports a damaged queue-info.txt. Repairing sets it aside and
// writes the properties in force.
func (q *Queue) checkSettings(r *Report, repair bool) error {
	q.svc.properties.Lock()
	defer q.svc.properties.Unlock()
	hold := q.ledger.Settings()
	bad, path := hold.Bad, home.QueueInfoPath(q.ID())
	if bad == "" {
		return nil
	}
	// It was told when the home was opened.
	r.Mended = slices.DeleteFunc(r.Mended, func(p Problem) bool { return p.Path == path })
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: path, Text: bad})
		return nil
	}
	to, err := q.file.SetAside()
	if err != nil {
		return err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := q.file.Replace(hold.Text)
	if err != nil {
		return err
	}
	if err := q.takeSettings(q.settingsOf(written)); err != nil {
		return err
	}
	r.Mended = append(r.Mended, Problem{Path: path, Text: bad})
	return nil
}

// rebuild makes the missing parts of a home around its queue directories and
// removes the index, so that opening the home reads the directories. The
// journal stays: its records are later than the files.
func rebuild(dir string, o CheckOptions, mended func(Problem)) error {
	if err := foreign.Check(dir); err != nil {
		return err
	}
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	lock, err := home.Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	now := o.Now
	if now == nil {
		now = time.Now
	}
	if err := home.Complete(d, now(), mended); err != nil {
		return err
	}
	logs, err := d.MakeSub(home.LogDir)
	if err != nil {
		return err
	}
	defer logs.Close()
	ix, err := logs.MakeSub(home.IndexDir)
	if err != nil {
		return err
	}
	defer ix.Close()
	store := &snapshot.Store{Dir: ix}
	if err := rebuildQueues(d, store, now, mended); err != nil {
		return err
	}
	if err := store.Drop(); err != nil {
		return err
	}
	last := make(map[string]index.Numbers, len(o.Last))
	for id, seq := range o.Last {
		last[id] = index.Numbers{Seq: seq}
	}
	return store.Retire(last)
}

// rebuildQueues lists every queue directory in queues.txt and gives it the
// files it lacks.
func rebuildQueues(d *durable.Dir, store *snapshot.Store, now func() time.Time, mended func(Problem)) error {
	qdir, err := home.OpenQueues(d)
	if err != nil {
		return err
	}
	defer qdir.Close()
	list, err := home.ReadList(d)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listed, err := list.Queues()
	if err != nil {
		return err
	}
	var names []string
	if err := qdir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		id, err := CleanQueueID(name)
		if err != nil || id != name {
			continue
		}
		made, err := rebuildQueue(qdir, id, store, now)
		if errors.Is(err, errNoDir) {
			continue
		}
		if err != nil {
			return err
		}
		if made {
			mended(Problem{Path: home.QueueInfoPath(id), Text: "missing; made"})
		}
		if !slices.Contains(listed, id) {
			list = list.Add(id)
			mended(Problem{Path: home.ListName, Text: "queue " + id + " was not listed; added"})
			if err := list.Write(d); err != nil {
				return err
			}
		}
	}
	return nil
}

var errNoDir = errors.New("no directory")

// rebuildQueue makes the property file of a queue if there is none.
func rebuildQueue(qdir *durable.Dir, id string, store *snapshot.Store, now func() time.Time) (made bool, err error) {
	sub, err := qdir.Sub(id)
	if err != nil {
		return false, errNoDir
	}
	defer sub.Close()
	if _, err := sub.Stat(home.QueueInfoName); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	text, created, err := store.Settings(id)
	if err != nil {
		return false, err
	}
	if text == nil {
		info := home.NewQueue(id, cmp.Or(created, now()))
		text = info.Text()
	}
	return true, sub.Replace(home.QueueInfoName, text)
}
