package queuefs

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/indexfile"
)

// A damaged queue-info.txt neither keeps a home from opening nor takes its queue
// out of service: the last known properties hold, by their copy in the index.
// Without a copy the queue takes no jobs and hands out none until an operator sets
// its properties.

// knownSettings is readSettings during the opening of a home. A damaged file is
// reported.
func (q *Queue) knownSettings() (settings, error) {
	n, err := q.readSettings()
	if err == nil && n.dated || exhausted(err) {
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
	stamp, changed, e := stampOf(q.tree.Root(), queueInfo)
	if e != nil {
		changed = micro(q.svc.now())
	}
	n = settings{file: kept, stamp: stamp, bad: err.Error() + "; the last known properties hold"}
	if kept == nil || n.parse(q, changed) != nil {
		info := madeUp(q.id, micro(q.svc.now()), created)
		n = settings{file: info.file(), stamp: stamp, made: true, bad: err.Error() + "; nothing is known of its properties, so the queue is closed and paused"}
		if err := n.parse(q, changed); err != nil {
			return n, err
		}
	}
	n.date(created)
	q.svc.report(Problem{Path: q.infoPath(), Text: n.bad})
	return n, nil
}

// date sets the known time of creation if the settings have none. The time of the
// file is later once it was edited.
func (n *settings) date(known time.Time) {
	if !n.dated && !known.IsZero() {
		n.info.Created = known
	}
}

func (q *Queue) infoPath() string { return queuesDir + "/" + q.id + "/" + queueInfo }

// madeUp are harmless properties for a queue without known ones, except perhaps
// for its creation.
func madeUp(id string, now, created time.Time) QueueInfo {
	return QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, Closed: true, Paused: now, Created: cmp.Or(created, now)}
}

// keptSettings returns the copy of queue-info.txt and the time of creation in the
// index; nil and zero if unknown.
func keptSettings(index *durable.Dir, id string) (text []byte, created time.Time, err error) {
	all, err := index.Sub(queuesDir)
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
	bad := hold.bad
	if bad == "" {
		return nil
	}
	// It was told when the home was opened.
	r.Mended = slices.DeleteFunc(r.Mended, func(p Problem) bool { return p.Path == q.infoPath() })
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: q.infoPath(), Text: bad})
		return nil
	}
	to, err := q.tree.Root().SetAside(q.tree.Root(), queueInfo, queueInfo)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		bad += "; written again"
	case err != nil:
		return err
	default:
		bad += "; moved to " + to + ", and written again"
	}
	if err := q.tree.Root().Replace(queueInfo, hold.file); err != nil {
		return err
	}
	now, err := q.readSettings()
	if err != nil {
		return err
	}
	if err := q.adopt(now); err != nil {
		return err
	}
	r.Mended = append(r.Mended, Problem{Path: q.infoPath(), Text: bad})
	return nil
}
