package check

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/snapshot"
)

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
	defer logs.Close()
	ix, err := logs.MakeSub(home.IndexDir)
	if err != nil {
		return err
	}
	store := &snapshot.Store{Dir: ix, Highest: func() (n index.Numbers) { return n },
		Report:    func(path, text string) { mended(home.Problem{Path: path, Text: text}) },
		Published: func(id string) (job.Seq, error) { n, err := home.LastPublished(d, id); return job.Seq(n), err }}
	if err := store.Open(indexfile.Checkpoint{}); err != nil { // the opening tells of damage
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
