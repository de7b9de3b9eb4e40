package queuefs

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/indexfile"
)

// rebuild makes the missing parts of a home around its queue directories and
// removes the index, so that opening the home reads the directories. The
// journal stays: its records are later than the files.
func rebuild(dir string, o CheckOptions, mended func(Problem)) error {
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
	if err := rebuildQueues(d, ix, now, mended); err != nil {
		return err
	}
	return dropIndex(ix)
}

// dropIndex removes all pages. The checkpoint stays, since the journal rules
// from there on, and so do the numbers of the queues, which never go back.
func dropIndex(ix *durable.Dir) error {
	qs, err := ix.MakeSub(home.QueuesDir)
	if err != nil {
		return err
	}
	defer qs.Close()
	var names []string
	if err := qs.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		d, err := qs.Sub(name)
		if err != nil {
			continue // no directory, so nobody reads it
		}
		err = errors.Join(dropPages(d), distrust(d, name))
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// distrust lets the directories of a queue without pages be read, although the
// journal should have all jobs.
func distrust(d *durable.Dir, queue string) error {
	x, err := indexfile.ReadQueue(d, queue)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, durable.ErrDamaged), err == nil && !x.Empty:
		return nil
	case err != nil:
		return err
	}
	x.Empty = false
	return indexfile.QueueIn(d, queue).Write(x.Text())
}

// rebuildQueues lists every queue directory in queues.txt and gives it the
// files it lacks.
func rebuildQueues(d, index *durable.Dir, now func() time.Time, mended func(Problem)) error {
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
		sub, err := qdir.Sub(name)
		if err != nil {
			continue // no directory
		}
		if _, err := sub.Stat(home.QueueInfoName); errors.Is(err, fs.ErrNotExist) {
			text, created, err := keptSettings(index, id)
			if text == nil {
				info := home.NewQueue(id, cmp.Or(created, now()))
				text = info.Text()
			}
			if err == nil {
				err = sub.Replace(home.QueueInfoName, text)
			}
			if err != nil {
				sub.Close()
				return err
			}
			mended(Problem{Path: home.QueueInfoPath(name), Text: "missing; made"})
		}
		sub.Close()
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
