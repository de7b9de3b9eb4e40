package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/home"
	"cutie/queuefs/indexfile"
)

// Reload takes in changes by other hands to queues.txt, to the queue-info.txt
// of each queue and to cutie-info.txt, and returns the queues that came, went,
// or have other properties now. From cutie-info.txt it takes name, description,
// supportURI and defaultCatalog; a change of baseURI, identifier or
// serviceScheme is reported and takes effect at the next opening. While nothing
// has changed, Reload only looks at the date of each file: call it about once a
// second. A file is read when it has held still between two calls, since an
// editor may empty it first.
//
// A queue new in queues.txt is served with the jobs in its directory; without a
// directory it is made. A queue missing in queues.txt is served on and reported
// as long as it has jobs; without jobs it is released, and its directory left
// as it is. A file that makes no sense is reported, and its former contents
// stay in force.
func (s *Service) Reload(ctx context.Context) (changed []string, err error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	changed, err = s.reloadQueues(ctx)
	s.set.Lock()
	defer s.set.Unlock()
	s.reloadInfo()
	for _, q := range s.Queues() {
		if q.reload() && !slices.Contains(changed, q.id) {
			changed = append(changed, q.id)
		}
	}
	return changed, err
}

// reloadQueues compares queues.txt with the open queues.
func (s *Service) reloadQueues(ctx context.Context) (changed []string, err error) {
	s.set.Lock()
	ids, changed, err := s.takeInListed()
	queues := s.Queues()
	s.set.Unlock()
	if err != nil || ids == nil {
		return changed, err
	}
	for _, q := range queues {
		if slices.Contains(ids, q.id) {
			continue
		}
		switch err := s.letGo(ctx, q); {
		case errors.Is(err, ErrNotEmpty):
			s.report(Problem{Path: home.ListName, Text: fmt.Sprintf("queue %s is not listed any more, but has jobs: it is served until the home is closed", q.id)})
		case err != nil:
			s.listFile.Again()
			return changed, err
		default:
			changed = append(changed, q.id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := func(q *Queue) int {
		if i := slices.Index(ids, q.id); i >= 0 {
			return i
		}
		return len(ids)
	}
	s.queues = slices.Clone(s.queues)
	slices.SortStableFunc(s.queues, func(a, b *Queue) int { return place(a) - place(b) })
	return changed, nil
}

// takeInListed serves the queues that are new in queues.txt, and returns all in
// it, or nil if it has not changed.
func (s *Service) takeInListed() (ids, changed []string, err error) {
	r, due, err := s.listFile.Changed()
	if !due || errors.Is(err, fs.ErrNotExist) && len(s.Queues()) == 0 {
		return nil, nil, nil
	}
	if transient(err) {
		return nil, nil, err
	}
	if err != nil {
		s.report(Problem{Path: home.ListName, Text: err.Error() + "; the queues stay as they were"})
		s.listFile.Take(r)
		return nil, nil, nil
	}
	ids = r.Value
	whole := true
	for _, id := range ids {
		if s.open(id) != nil {
			continue
		}
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return nil, changed, e
			}
			s.report(Problem{Path: home.QueuesDir + "/" + id, Text: err.Error() + "; not served"})
			whole = false
			continue
		}
		changed = append(changed, id)
	}
	if whole {
		s.listFile.Take(r)
	}
	return ids, changed, nil
}

func (s *Service) open(id string) *Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// takeIn serves a queue listed by other hands.
func (s *Service) takeIn(id string) error {
	root, err := s.qdir.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, micro(s.now()))
		info.VerifyOnWrite = true
		q, err := s.makeQueue(info)
		if err == nil {
			s.add(q)
		}
		return err
	}
	if err != nil {
		return err
	}
	if _, err = root.Stat(home.QueueInfoName); errors.Is(err, fs.ErrNotExist) {
		info := home.NewQueue(id, micro(s.now()))
		err = root.Replace(home.QueueInfoName, info.Text())
	}
	root.Close()
	if err != nil {
		return err
	}
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return fmt.Errorf("%s: %w", home.QueueInfoName, err)
	}
	// The directories have the jobs. The journal's records of the name were not
	// served, or are of a removed queue, and do not come back.
	if _, err = q.loadIndex(indexfile.Checkpoint{}, false); err == nil {
		if err = q.begin(); err == nil {
			err = q.reconcile(false)
		}
	}
	if err != nil {
		q.mu.Lock()
		s.dirty.Add(-int64(len(q.backlog.dirty)))
		q.idx.Free()
		q.mu.Unlock()
		q.tree.Close()
		return err
	}
	s.add(q)
	return nil
}

// add serves a queue.
func (s *Service) add(q *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[q.id] = q
	s.queues = append(s.queues, q)
	s.happened.Raise()
}

// letGo ends the service of a queue without jobs, taken out of queues.txt by
// other hands.
func (s *Service) letGo(ctx context.Context, q *Queue) error {
	if err := q.seal(ctx); err != nil {
		return err
	}
	err := s.checkpointLocked(false)
	if err != nil {
		q.unseal()
		return err
	}
	s.set.Lock()
	defer s.set.Unlock()
	s.drop(q)
	return storageError(s.forget(q.id))
}

// reload takes in a changed queue-info.txt, and tells whether it did.
func (q *Queue) reload() bool {
	r, due, err := q.set.file.Changed()
	was := q.inForce()
	if !due {
		if !q.announced() {
			// When the home was opened there was no space for the event. If
			// there is none now, it is tried again at the next call.
			_ = q.announce()
		}
		return false
	}
	if err == nil && r.Value.Identifier != was.info.Identifier {
		err = fmt.Errorf("the identifier cannot change from %.80q; create a queue of the new name and move the jobs there", was.info.Identifier)
	}
	if err != nil {
		q.svc.report(Problem{Path: home.QueueInfoPath(q.id), Text: err.Error() + "; the properties stay as they were"})
		if !transient(err) {
			q.set.file.Take(r)
			q.mu.Lock()
			q.set.Bad = err.Error()
			q.mu.Unlock()
		}
		return false
	}
	if q.takeSettings(q.settingsOf(r)) != nil {
		return false // tried again at the next call
	}
	return string(r.Text) != string(was.Text)
}
