// Package check compares a home with its journal and its index, and mends it. Nobody
// else has the home open meanwhile.
//
// A look changes nothing. Repair mends differences, and sets aside all that it cannot
// understand. Rebuild makes the index again from the directories: for a home without its
// journal or index, or a copy that becomes one.
package check

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/snapshot"
)

// Options are the changes allowed to [Home].
type Options struct {
	Repair     bool             // mend damage where possible
	Rebuild    bool             // make the index again from the directories, and missing parts of the home
	AcceptLoss bool             // as in [queuefs.Options], with Repair or Rebuild
	Making     bool             // as in [queuefs.Options]
	Now        func() time.Time // nil means time.Now
	Segment    int64            // as in [queuefs.Options]
	Reads      durable.Fault    // as in [queuefs.Options]
	// Last are the last events of queues that went on elsewhere, by identifier: with
	// Rebuild their events here have higher numbers and later times.
	Last map[string]Last
	// Job returns why the unknown elements of a job file make no sense to another
	// room; nil: nobody looks at them.
	Job func(*job.Job) error
}

// A Last is the number and the time of the last event of a queue.
type Last struct {
	Seq  job.Seq
	Time time.Time
}

// Home compares the whole of the home in dir, which nobody else may have open: each
// job has one job file, in the directory of its status, equal to the index, and a
// payload and results with their digests, and queue-info.txt makes sense. Without
// Repair and Rebuild it changes nothing. With one of them it does the same as opening
// a home: it replays the journal and takes in moves by hand. On a full disk it leaves
// out the jobs behind the journal.
func Home(dir string, o Options) (r queuefs.CheckReport, err error) {
	look := !o.Repair && !o.Rebuild
	_, err = os.Lstat(filepath.Join(dir, home.ListName))
	made := errors.Is(err, fs.ErrNotExist) // the opening makes a list
	r.Repaired = o.Repair
	found := func(p home.Problem) {
		lost := strings.HasPrefix(p.Path, home.QueuesDir+"/") && strings.Count(p.Path, "/") == 1 // the directory of a queue
		stays := lost || !o.Rebuild && (p.Path == home.ListName && !made || strings.HasPrefix(p.Path, "0="))
		if look || stays {
			r.Problems = append(r.Problems, p)
			return
		}
		p.Level = durable.Mended
		r.Mended = append(r.Mended, p)
	}
	if o.Rebuild {
		if err := rebuild(dir, o, found); err != nil {
			return r, err
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Look: look, ReadAll: true, Rebuild: o.Rebuild, AcceptLoss: o.AcceptLoss, Making: o.Making, Reads: o.Reads, Report: found, Now: o.Now, Segment: o.Segment})
	if err != nil {
		return r, err
	}
	defer func() {
		if e := s.Close(); e != nil && (o.Repair || o.Rebuild || !errors.Is(e, ledger.ErrNoSpace)) {
			err = errors.Join(err, e)
		}
	}()
	if err := s.Compare(&r, queuefs.CompareOptions{Repair: o.Repair, Restore: o.Rebuild, Sense: o.Job}); err != nil {
		return r, err
	}
	// What was reported on the way and is still wrong was not mended.
	r.Mended = slices.DeleteFunc(r.Mended, func(p home.Problem) bool {
		return slices.ContainsFunc(r.Problems, func(still home.Problem) bool { return still.Path == p.Path })
	})
	return r, nil
}

// Cure returns the options of a check that mends the problems in r, or the error err of
// a check; ok is false if only files from elsewhere do, such as lost payloads.
func Cure(r *queuefs.CheckReport, err error) (o Options, ok bool) {
	switch {
	case errors.Is(err, home.ErrNoHome), errors.Is(err, queuefs.ErrInfo):
		return Options{Rebuild: true}, true
	case err != nil:
		return o, false
	}
	for _, p := range r.Problems {
		switch {
		case p.Cure != "":
			continue // nobody else has it: it is to be set again
		case p.Level == durable.Unread:
			continue // it may be whole
		case p.Path == snapshot.SubscriptionsPath:
			continue // the daemon goes on without them
		case p.Path == home.ListName, strings.HasPrefix(p.Path, "0="): // the tag
			o.Rebuild = true
		case p.Path == home.LogDir+"/"+home.JournalDir:
			o.Repair, o.AcceptLoss = true, true
		case strings.HasPrefix(p.Text, "directory lost"):
			continue // to be put back, or the queue removed
		case strings.HasPrefix(p.Path, home.QueuesDir+"/") && strings.Count(p.Path, "/") == 1 && !r.Repaired: // its directory
			o.Rebuild, o.AcceptLoss = true, true
		case r.Repaired && strings.Contains(p.Path, "/payload/"):
			continue
		case r.Repaired:
			o.Rebuild = true
		default:
			o.Repair = true
		}
	}
	return o, o.Repair || o.Rebuild
}

// rebuild makes the missing parts of a home around its queue directories.
func rebuild(dir string, o Options, mended func(home.Problem)) error {
	if err := home.CheckForeign(dir); err != nil {
		return err
	}
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := home.CheckMade(d); err != nil && !o.Making {
		return err
	}
	lock, err := home.Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	now := o.Now
	if now == nil {
		now = time.Now
	}
	logs, err := d.MakeSub(home.LogDir)
	if err != nil {
		return err
	}
	store, err := snapshot.Open(snapshot.Options{Log: logs, Highest: func() (n index.Numbers) { return n },
		Report:    func(path, text string) { mended(home.Problem{Path: path, Text: text}) },
		Published: func(id string) (job.Seq, error) { n, err := home.LastPublished(d, id); return job.Seq(n), err }})
	if err != nil {
		logs.Close()
		return err
	}
	defer store.Close()
	if err := rebuildInfo(d, store, mended); err != nil {
		return err
	}
	if err := home.Complete(d, now(), mended); err != nil {
		return err
	}
	if err := rebuildQueues(d, store, now, mended); err != nil {
		return err
	}
	last := make(map[string]index.Numbers, len(o.Last))
	for id, event := range o.Last {
		last[id] = index.Numbers{Seq: event.Seq, Time: event.Time.UnixMicro()}
	}
	return errors.Join(store.Retire(last), store.Sync())
}

// rebuildInfo writes a missing or damaged cutie-info.txt again by its copy. A damaged
// one without a copy is set aside.
func rebuildInfo(d *durable.Dir, store *snapshot.Store, mended func(home.Problem)) error {
	file := home.ServiceFile(d)
	_, err := file.Read()
	if err == nil || content.Transient(err) {
		return err
	}
	copied, e := store.Service()
	if e != nil {
		return e
	}
	to, e := file.SetAside()
	if e != nil {
		return e
	}
	if to != "" {
		mended(home.Problem{Path: home.InfoName, Text: durable.Bare(err).Error() + "; moved to " + to})
	}
	if copied == nil {
		return nil
	}
	mended(home.Problem{Path: home.InfoName, Text: "written again by its copy"})
	_, err = file.Replace(copied)
	return err
}

// rebuildQueues lists every queue directory in queues.txt and gives it the
// files it lacks.
func rebuildQueues(d *durable.Dir, store *snapshot.Store, now func() time.Time, mended func(home.Problem)) error {
	qdir, err := home.OpenQueues(d)
	if err != nil {
		return err
	}
	defer qdir.Close()
	list, err := home.ReadList(d)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listed, bad := list.Legible()
	if len(bad) > 0 {
		list = list.Mend()
		if err := list.Write(d); err != nil {
			return err
		}
		for _, err := range bad {
			mended(home.Problem{Path: home.ListName, Text: err.Error() + "; taken out"})
		}
	}
	var names []string
	if err := qdir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		id, err := job.CleanQueueID(name)
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
			mended(home.Problem{Path: home.QueueInfoPath(id), Text: "missing; made"})
		}
		if !slices.Contains(listed, id) {
			list = list.Add(id)
			mended(home.Problem{Path: home.ListName, Text: "queue " + id + " was not listed; added"})
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
	kept, err := store.File(id).Settings()
	if err != nil {
		return false, err
	}
	if kept.Text == nil {
		info := home.NewQueue(id, cmp.Or(kept.Created, now()))
		kept.Text = info.Text()
	}
	return true, sub.Replace(home.QueueInfoName, kept.Text)
}
