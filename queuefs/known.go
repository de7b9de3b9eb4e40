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

// A damaged queue-info.txt neither keeps a home from opening nor takes its queue
// out of service: the last known properties hold, by their copy in the index.
// Without a copy the queue takes no jobs and hands out none until an operator sets
// its properties.

// knownSettings is readSettings during the opening of a home. A damaged file is
// reported.
func (q *Queue) knownSettings() (settings, error) {
	r, err := q.set.file.Read()
	n := q.settingsOf(r)
	if err == nil && n.dated() || exhausted(err) {
		return n, err
	}
	kept, created, e := keptSettings(q.svc.ixdir, q.id)
	if e != nil {
		return n, e
	}
	if err == nil {
		n.date(created)
		return n, nil
	}
	if r.Written.IsZero() {
		r.Written = micro(q.svc.now())
	}
	r, e = q.set.file.Instead(r, kept, err.Error()+"; the last known properties hold")
	made := kept == nil || e != nil
	if made {
		info := madeUp(q.id, micro(q.svc.now()), created)
		if r, e = q.set.file.Instead(r, info.Text(), err.Error()+"; nothing is known of its properties, so the queue is closed and paused"); e != nil {
			return n, e
		}
	}
	n = q.settingsOf(r)
	n.made = made
	n.date(created)
	q.svc.report(Problem{Path: home.QueueInfoPath(q.id), Text: n.Bad})
	return n, nil
}

// date sets the known time of creation if the settings have none. The time of the
// file is later once it was edited.
func (n *settings) date(known time.Time) {
	if !n.dated() && !known.IsZero() {
		n.info.Created = known
	}
}

// madeUp are harmless properties for a queue without known ones, except perhaps
// for its creation.
func madeUp(id string, now, created time.Time) QueueInfo {
	info := home.NewQueue(id, cmp.Or(created, now))
	info.Closed, info.Paused = true, now
	return info
}

// keptSettings returns the copy of queue-info.txt and the time of creation in the
// index; nil and zero if unknown.
func keptSettings(index *durable.Dir, id string) (text []byte, created time.Time, err error) {
	all, err := index.Sub(home.QueuesDir)
	if err == nil {
		defer all.Close()
		var dir *durable.Dir
		if dir, err = all.Sub(id); err == nil {
			defer dir.Close()
			var x indexfile.Queue
			if x, err = indexfile.ReadQueue(dir, id); err == nil && x.Created != 0 {
				created = micro(x.Created)
			}
			text = x.Settings
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) { // reported when the queue is opened
		err = nil
	}
	return text, created, err
}

// checkSettings reports a damaged queue-info.txt. Repairing sets it aside and
// writes the properties in force.
func (q *Queue) checkSettings(r *Report, repair bool) error {
	q.svc.set.Lock()
	defer q.svc.set.Unlock()
	hold := q.inForce()
	bad, path := hold.Bad, home.QueueInfoPath(q.id)
	if bad == "" {
		return nil
	}
	// It was told when the home was opened.
	r.Mended = slices.DeleteFunc(r.Mended, func(p Problem) bool { return p.Path == path })
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: path, Text: bad})
		return nil
	}
	to, err := q.set.file.SetAside()
	if err != nil {
		return err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := q.set.file.Replace(hold.Text)
	if err != nil {
		return err
	}
	if err := q.takeSettings(q.settingsOf(written)); err != nil {
		return err
	}
	r.Mended = append(r.Mended, Problem{Path: path, Text: bad})
	return nil
}
