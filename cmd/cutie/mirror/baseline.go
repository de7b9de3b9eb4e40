package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"cutie/publisher/destination"
	"cutie/publisher/destination/fetch"
	"cutie/queuefs"
	"cutie/queuefs/home"
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
	switch m := q.Mirror(); {
	case q.ID() != f.id || m == nil || m.Bad == "" && m.List != f.list:
		return nil, fmt.Errorf("%w: a queue of this home has the name %s, so %s is not mirrored", queuefs.ErrQueueExists, f.id, f.list)
	case !m.Live():
		return nil, errOver
	case m.Bad != "":
		return nil, fmt.Errorf("%s/%s: %s", home.MirrorsDir, f.id, m.Bad)
	}
	return q, nil
}

// adopt copies the queue and makes a mirror of the copy.
func (f *follower) adopt(ctx context.Context) (*queuefs.Queue, error) {
	svc := f.keeper.svc
	dir := filepath.Join(svc.Dir(), home.CopiesDir, f.id)
	m, begun := svc.Begun(f.id)
	if !begun {
		at, err := f.copy(ctx, dir)
		if err != nil {
			return nil, err
		}
		m = queuefs.Mirror{Source: f.of.URL, List: f.list, Event: queuefs.Seq(at.Event), At: at.Until}
	}
	q, err := svc.Adopt(ctx, f.id, m)
	if err != nil {
		return nil, err
	}
	return q, os.RemoveAll(dir)
}

// copyTries is how often a copy is brought up to a busy original until no file of it is
// in transit.
const copyTries = 20

// copy copies the files of the queue, until they are of one instant.
func (f *follower) copy(ctx context.Context, dir string) (at destination.Standing, err error) {
	copied, err := destination.Open(ctx, destination.Options{URL: f.list, Dir: dir, Sets: []string{f.list},
		HTTP: fetch.Options{UserAgent: f.keeper.o.Agent, Header: f.of.Header}})
	if err != nil {
		return at, err
	}
	for try := 0; ; try++ {
		r, err := copied.Sync(ctx)
		if err == nil && !r.InSync() && try == copyTries {
			err = fmt.Errorf("%d files of the copy are missing, %d were refused", r.Failed, r.Refused)
		}
		if err != nil {
			return at, errors.Join(err, copied.Close())
		}
		if r.InSync() {
			break
		}
	}
	if err := copied.Close(); err != nil {
		return at, err
	}
	_, all, err := destination.Standings(dir)
	if err == nil && (len(all) != 1 || !all[0].Baseline || all[0].Transit > 0) {
		err = fmt.Errorf("%s: no whole copy of one queue", dir)
	}
	if err != nil {
		return at, err
	}
	return all[0], nil
}
