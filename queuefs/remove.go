package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/durable"
)

// removedPrefix begins the names in cutie-tmp of directories of queues that
// were removed.
const removedPrefix = "removed-"

// RemoveQueue removes a queue that has no job of any status, with its
// directory, its index and what was published of it. Consumers that wait for a
// job of it are told that it is not there. If it has jobs, or its directory has files that are not the program's to remove, the
// error is [ErrNotEmpty].
//
// What is removed stays so when RemoveQueue returns; files that could not be
// removed are reported, and serve no one. A queue made later under the same name
// is another one, but its numbers of jobs and of events go on where those of
// the former ended.
func (s *Service) RemoveQueue(ctx context.Context, name string) error {
	return s.RemoveQueueIf(ctx, name, func(*Queue) error { return nil })
}

// RemoveQueueIf is RemoveQueue of a queue that is as it is to be: may is asked
// when it has no job, and again when nothing can come to it any more, but it can
// still be found. If it returns an error the queue stays, and that is the error.
func (s *Service) RemoveQueueIf(ctx context.Context, name string, may func(*Queue) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	q, err := s.Queue(name)
	if err != nil {
		return err
	}
	ask := func() error { return may(q) }
	// What refuses does so, if it can, as long as the queue is served: nobody is
	// to take one that stays for one that is gone.
	if err := s.removable(q, ask); err != nil {
		return err
	}
	if err := q.seal(ctx); err != nil {
		return err
	}
	if err = ask(); err == nil {
		err = s.unlist(q)
	}
	if err != nil {
		q.unseal()
		return err
	}
	s.drop(q)
	if err := errors.Join(s.removeDir(q.id), s.forget(q.id)); err != nil {
		s.report(Problem{Path: queuesDir + "/" + q.id, Text: err.Error() + "; left behind of a queue that was removed"})
	}
	return nil
}

// removable tells why a queue cannot be removed, or could not if nothing came
// to it any more.
func (s *Service) removable(q *Queue, ask func() error) error {
	q.mu.RLock()
	err := q.bare()
	q.mu.RUnlock()
	if err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	if err := s.checkpointLocked(false); err != nil {
		return err
	}
	strange := q.onlyOurs()
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.bare(); err != nil {
		return err // the files are those of a job that has come meanwhile
	}
	return strange
}

// bare returns [ErrNotEmpty] if the queue has jobs; q.mu is held.
func (q *Queue) bare() error {
	if n := q.idx.Counts.Total(); n > 0 {
		return fmt.Errorf("%s: %w: it has %d jobs", q.id, ErrNotEmpty, n)
	}
	return nil
}

// seal lets no more events come to a queue without jobs.
func (q *Queue) seal(ctx context.Context) error {
	for {
		if err := q.svc.usable(); err != nil {
			return err
		}
		q.mu.Lock()
		if err := q.bare(); err != nil {
			q.mu.Unlock()
			return err
		}
		if q.idx.Minted().Seq == q.idx.Last().Seq {
			q.gone = true
			q.mu.Unlock()
			return nil
		}
		if err := q.sleep(ctx, 0); err != nil { // an event is on its way
			return err
		}
	}
}

func (q *Queue) unseal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = false
}

// unlist takes a sealed queue out of queues.txt. From there on it does not
// exist: a crash leaves directories behind that nobody serves.
func (s *Service) unlist(q *Queue) error {
	// With the events in the files, the journal is needed for none of them.
	if err := s.checkpointLocked(false); err != nil {
		return err
	}
	if err := q.onlyOurs(); err != nil {
		return err
	}
	was, err := s.home.ReadFile(queuesName, nil, 64<<20)
	if err != nil {
		return storageError(err)
	}
	var text []byte
	for line := range strings.Lines(string(was)) {
		if id, err := CleanQueueID(strings.TrimSpace(line)); err != nil || id != q.id {
			text = append(text, line...)
		}
	}
	if err := s.home.Replace(queuesName, text); err != nil {
		now, e := s.home.ReadFile(queuesName, nil, 64<<20)
		if e == nil && string(now) == string(was) {
			return storageError(err) // nothing has happened
		}
		// Whether the queue is listed after a crash is in doubt: no job must
		// come to it.
		s.fail(err)
		return errors.Join(ErrFailed, err)
	}
	return nil
}

// onlyOurs refuses a queue directory with files that are no remains of a queue
// without jobs: somebody must look at them first.
func (q *Queue) onlyOurs() error {
	strange := func(d *durable.Dir, path string, ours ...string) error {
		var found string
		err := d.Names(func(name string) {
			if !strings.HasPrefix(name, durable.TempPrefix) && !slices.Contains(ours, name) {
				found = name
			}
		})
		if err == nil && found != "" {
			err = fmt.Errorf("%s: %w: %s%s is not the program's to remove; look at it and move it away", q.id, ErrNotEmpty, path, found)
		}
		return err
	}
	dirs := []string{payloadDir, resultDir, corruptDir, Pending.String(), Consumed.String(), Deleted.String()}
	if err := strange(q.dirs.root, "", append(dirs, queueInfo)...); err != nil {
		return err
	}
	for _, name := range dirs {
		d, err := q.dirs.root.Sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = strange(d, name+"/")
			d.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop takes a sealed queue out of the memory.
func (s *Service) drop(q *Queue) {
	s.mu.Lock()
	delete(s.byID, q.id)
	s.queues = slices.DeleteFunc(s.queues, func(o *Queue) bool { return o == q })
	s.mu.Unlock()
	q.mu.Lock()
	for _, w := range q.consumers.line {
		close(w.ready)
	}
	q.consumers.line = nil
	q.watch.wakeAll()
	q.idx.Free()
	q.mu.Unlock()
	s.happened.raise()
	q.closeDirs()
}

// removeDir removes the directory of a queue that is not listed. It goes out
// of the way first: what a crash leaves is no queue, and goes at the next
// opening.
func (s *Service) removeDir(id string) error {
	if err := s.temp.RemoveTree(removedPrefix + id); err != nil {
		return err
	}
	if err := s.qdir.Rename(id, s.temp, removedPrefix+id); err != nil {
		return err
	}
	if err := s.qdir.Sync(); err != nil {
		return err
	}
	return s.temp.RemoveTree(removedPrefix + id)
}

// sweepRemoved removes what is left of queues that were removed, and of those
// that were never finished.
func (s *Service) sweepRemoved() error {
	var left []string
	err := s.temp.Names(func(name string) {
		if strings.HasPrefix(name, removedPrefix) {
			left = append(left, name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := s.temp.RemoveTree(name); err != nil { // tried again at the next opening
			s.report(Problem{Path: tempName + "/" + name, Text: err.Error() + "; left behind of a queue that was removed"})
		}
	}
	ix, err := s.ixdir.Sub(queuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ix.Close()
	var names []string
	if err := ix.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if d, err := ix.Sub(name); err == nil {
			err = d.Sweep(nil)
			d.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the index and the published documents of a queue that is not
// listed, and has the follower do the same.
func (s *Service) forget(id string) error {
	if f, ok := s.follower.(Forgetter); ok {
		if err := f.Forget(id); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
	}
	if err := s.forgetIndex(id); err != nil {
		return err
	}
	d, err := s.home.Sub(publishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.RemoveTree(id); err != nil {
		return err
	}
	return d.Sync()
}
