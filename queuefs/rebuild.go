package queuefs

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/namaste"
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
	lock, err := lockHome(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	now := o.Now
	if now == nil {
		now = time.Now
	}
	tag := namaste.Tag{Number: namaste.Type, Value: "Cutie/" + specVersion}
	if err := checkTag(d, mended); errors.Is(err, ErrNoHome) {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		mended(Problem{Path: tag.FileName(), Text: "missing; made"})
	} else if err != nil {
		return err
	}
	if _, err := d.Stat(infoName); errors.Is(err, fs.ErrNotExist) {
		if err := d.Replace(infoName, ServiceInfo{Scheme: Scheme, Created: now()}.file()); err != nil {
			return err
		}
		mended(Problem{Path: infoName, Text: "missing; made"})
	}
	logs, err := d.MakeSub(logDir)
	if err != nil {
		return err
	}
	defer logs.Close()
	ix, err := logs.MakeSub(indexDir)
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
	qs, err := ix.MakeSub(queuesDir)
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
	qdir, err := openQueues(d)
	if err != nil {
		return err
	}
	defer qdir.Close()
	data, err := d.ReadFile(queuesName, nil, 64<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listed, err := readQueues(data)
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
		if _, err := sub.Stat(queueInfo); errors.Is(err, fs.ErrNotExist) {
			text, created, err := keptSettings(index, id)
			if text == nil {
				text = (&QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, Created: cmp.Or(created, now())}).file()
			}
			if err == nil {
				err = sub.Replace(queueInfo, text)
			}
			if err != nil {
				sub.Close()
				return err
			}
			mended(Problem{Path: queuesDir + "/" + name + "/" + queueInfo, Text: "missing; made"})
		}
		sub.Close()
		if !slices.Contains(listed, id) {
			if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
				data = append(data, '\n')
			}
			data = append(append(data, id...), '\n')
			mended(Problem{Path: queuesName, Text: "queue " + id + " was not listed; added"})
			if err := d.Replace(queuesName, data); err != nil {
				return err
			}
		}
	}
	return nil
}
