package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/publisher/entries"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/tree"
	"cutie/sitemap"
)

// open returns the mirror, made from a copy if need be.
func (f *follower) open(ctx context.Context) (*queuefs.Queue, error) {
	svc := f.keeper.svc
	q, err := svc.Queue(f.id)
	switch {
	case errors.Is(err, queuefs.ErrNoQueue):
		return f.adopt(ctx)
	case err != nil:
		return nil, err
	}
	m := q.Mirror()
	if m.Live() && m.Base() != "" && m.List != f.list && !Answers(ctx, m.Base()) {
		yes, _, err := f.set.Succeeds(ctx, m.Base()+"/")
		if err == nil && yes {
			f.keeper.tell(f.id, "the original was "+m.Source+", its successor "+f.of.URL+" is followed")
			err = q.Original().Move(f.of.URL, f.list)
		}
		if err != nil {
			return nil, err
		}
		m = q.Mirror()
	}
	switch {
	case q.ID() != f.id || m == nil || m.Bad == "" && m.List != f.list:
		return nil, fmt.Errorf("%w: a queue of this home has the name %s, so %s is not mirrored", queuefs.ErrQueueExists, f.id, f.list)
	case !m.Live():
		return nil, errOver
	case m.Bad != "":
		return nil, fmt.Errorf("%s/%s: %s", home.MirrorsDir, f.id, m.Bad)
	}
	return q, os.RemoveAll(f.copied()) // a crash after Adopt leaves it
}

// copied is the directory of the copy.
func (f *follower) copied() string {
	return filepath.Join(f.keeper.svc.Dir(), home.CopiesDir, f.id)
}

// adopt copies the queue and makes a mirror of the copy.
func (f *follower) adopt(ctx context.Context) (*queuefs.Queue, error) {
	svc := f.keeper.svc
	dir := f.copied()
	b := newBacklog(f)
	defer b.discard()
	n := 0
	m, begun := svc.Begun(f.id)
	if !begun {
		at, missing, err := f.copy(ctx, dir)
		if err != nil {
			return nil, err
		}
		m = queuefs.Mirror{Source: f.of.URL, List: f.list, Event: queuefs.Seq(at.Event), At: at.Until}
		if n, err = f.explain(ctx, b, missing, source.Cursor{Time: at.Until, Seq: at.Event}); err != nil {
			return nil, err
		}
	}
	events, settings := b.first(n)
	q, err := svc.Adopt(ctx, f.id, m, events, settings)
	if err != nil {
		return nil, err
	}
	b.forget(n)
	return q, os.RemoveAll(dir)
}

// copy copies the files of the queue. missing are files replaced by the original before
// they were fetched.
func (f *follower) copy(ctx context.Context, dir string) (at destination.Standing, missing []string, err error) {
	requests, err := f.keeper.http(f.of)
	if err != nil {
		return at, nil, err
	}
	copied, err := destination.Open(ctx, destination.Options{URL: f.list, Dir: dir, Sets: []string{f.list}, HTTP: requests,
		Settle: time.Millisecond}) // later events explain missing files
	if errors.Is(err, destination.ErrOther) {
		err = errors.Join(fmt.Errorf("%w; the copy begins anew", err), os.RemoveAll(dir))
	}
	if err != nil {
		return at, nil, err
	}
	r, err := copied.Sync(ctx)
	if err == nil && r.Refused > 0 {
		err = fmt.Errorf("%d files were refused", r.Refused)
	}
	if err = errors.Join(err, copied.Close()); err != nil {
		return at, nil, err
	}
	if missing, err = destination.Settle(dir); err == nil {
		err = f.tidy(dir)
	}
	if err != nil {
		return at, nil, err
	}
	_, all, err := destination.Standings(dir)
	if err == nil && (len(all) != 1 || !all[0].Baseline) {
		err = fmt.Errorf("%s: no copy of one queue", dir)
	}
	if err != nil {
		return at, nil, err
	}
	return all[0], missing, nil
}

// tidy gives the directory of a copied queue its name in a home, and removes
// directories without results.
func (f *follower) tidy(dir string) error {
	names, err := local.NewNames(f.site, false)
	if err != nil {
		return err
	}
	file, err := names.Path(f.base + home.QueueInfoName)
	if err != nil {
		return err
	}
	was, is := filepath.Join(dir, filepath.Dir(filepath.FromSlash(file))), filepath.Join(dir, home.QueuesDir, f.id)
	if was != is {
		if err := os.Rename(was, is); err != nil {
			return err
		}
	}
	empty, err := os.ReadDir(filepath.Join(is, tree.Results))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range empty {
		_ = os.Remove(filepath.Join(is, tree.Results, e.Name())) // fails for others
	}
	return err
}

// explain waits for events of all jobs with files missing in the copy, and returns how
// many events to replay.
func (f *follower) explain(ctx context.Context, b *backlog, missing []string, since source.Cursor) (n int, err error) {
	lacking := map[queuefs.JobID]bool{}
	for _, uri := range missing {
		var ev queuefs.Event
		if err := entries.Take(&ev, f.base, &sitemap.Entry{Loc: uri}); err != nil {
			return 0, err
		}
		lacking[ev.Job] = true
	}
	began := time.Now()
	for len(lacking) > 0 {
		err := f.changes(ctx, &since, 0, func(events []*event) error { b.add(events); return nil })
		if err == nil {
			err = b.gather(ctx, len(b.events))
		}
		if err != nil {
			return 0, err
		}
		for ready := b.ready(len(b.events)); n < ready; n++ {
			delete(lacking, b.events[n].Job)
		}
		if time.Since(began) > explainTime || len(b.events) > maxBacklog {
			// The files may be lost or damaged at the original: audits go on to name them.
			f.keeper.o.Tell(f.id, fmt.Sprintf("%d files are not as the lists of the original say, and are missing, such as %s", len(missing), missing[0]))
			break
		}
		if !sleep(ctx, transitPause) {
			return 0, ctx.Err()
		}
	}
	return n, nil
}

// explainTime is how long to wait for events to explain missing files.
const explainTime = 30 * time.Second
