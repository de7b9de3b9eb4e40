package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Reload takes in what other hands changed in queues.txt, in the
// queue-info.txt of each queue and in cutie-info.txt since the service read
// them, and returns the queues that came, went, or have other properties now.
// Of cutie-info.txt it takes name, description, supportURI and defaultCatalog;
// baseURI, identifier and serviceScheme hold for as long as the home is open,
// and a change of them is reported. While nothing has
// changed it costs a look at the date of each file: call it about once a
// second. A file is read when it has held still between two calls, since
// whoever edits it may empty it first.
//
// A queue new in queues.txt is served with the jobs its directory has; without
// a directory it is made. One that is no longer there is served on as long as
// it has jobs, which is reported; without jobs it is let go of, and its
// directory left as it is. A file that makes no sense is reported, and what it
// said before stays in force until it is mended.
func (s *Service) Reload(ctx context.Context) (changed []string, err error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.reloadInfo()
	changed, err = s.reloadQueues(ctx)
	for _, q := range s.Queues() {
		if q.reload() && !slices.Contains(changed, q.id) {
			changed = append(changed, q.id)
		}
	}
	return changed, err
}

// reloadQueues compares queues.txt with the queues that are open.
func (s *Service) reloadQueues(ctx context.Context) (changed []string, err error) {
	now, _, err := stampOf(s.home, queuesName)
	if errors.Is(err, fs.ErrNotExist) && len(s.Queues()) == 0 {
		return nil, nil
	}
	if err == nil && !s.listWatch.changed(now) {
		return nil, nil
	}
	var ids []string
	if err == nil {
		ids, err = s.listed()
	}
	if transient(err) {
		return nil, err
	}
	if err != nil {
		s.report(Problem{Path: queuesName, Text: err.Error() + "; the queues stay as they were"})
		s.listWatch.read = now
		return nil, nil
	}
	whole := true
	for _, id := range ids {
		if s.open(id) != nil {
			continue
		}
		if err := s.takeIn(id); err != nil {
			if e := s.usable(); e != nil {
				return changed, e
			}
			s.report(Problem{Path: queuesDir + "/" + id, Text: err.Error() + "; not served"})
			whole = false
			continue
		}
		changed = append(changed, id)
	}
	for _, q := range s.Queues() {
		if slices.Contains(ids, q.id) {
			continue
		}
		switch err := s.letGo(ctx, q); {
		case errors.Is(err, ErrNotEmpty):
			s.report(Problem{Path: queuesName, Text: fmt.Sprintf("queue %s is not listed any more, but has jobs: it is served until the home is closed", q.id)})
		case err != nil:
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
	if whole {
		s.listWatch.read = now
	}
	return changed, nil
}

// listed returns the queues that queues.txt names.
func (s *Service) listed() ([]string, error) {
	data, err := s.home.ReadFile(queuesName, nil, 64<<20)
	if err != nil {
		return nil, err
	}
	return readQueues(data)
}

func (s *Service) open(id string) *Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// takeIn serves a queue that other hands have listed.
func (s *Service) takeIn(id string) error {
	root, err := s.qdir.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		q, err := s.makeQueue(QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, VerifyOnWrite: true, Created: micro(s.now())})
		if err == nil {
			s.add(q)
		}
		return err
	}
	if err != nil {
		return err
	}
	if _, err = root.Stat(queueInfo); errors.Is(err, fs.ErrNotExist) {
		info := QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, Created: micro(s.now())}
		err = root.Replace(queueInfo, info.file())
	}
	root.Close()
	if err != nil {
		return err
	}
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return fmt.Errorf("%s: %w", queueInfo, err)
	}
	// The directories say what jobs there are. What the journal has of the name
	// was not served, or is of a queue that went; it does not come back.
	if _, err = q.loadIndex(checkpointFile{}, false); err == nil {
		if err = q.begin(); err == nil {
			err = q.reconcile(false)
		}
	}
	if err != nil {
		q.mu.Lock()
		s.dirty.Add(-int64(len(q.backlog.dirty)))
		for _, id := range q.backlog.dirty {
			if j, ok := q.idx.Known(id); ok && j.Filed == 0 {
				s.room.bare.Add(-1)
			}
		}
		q.idx.Free()
		q.mu.Unlock()
		q.closeDirs()
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
	s.happened.raise()
}

// letGo ends the service of a queue without jobs that other hands have taken
// out of queues.txt.
func (s *Service) letGo(ctx context.Context, q *Queue) error {
	if err := q.seal(ctx); err != nil {
		return err
	}
	err := s.checkpointLocked(false)
	if err != nil {
		q.unseal()
		return err
	}
	s.drop(q)
	return storageError(s.forget(q.id))
}

// reload takes in a changed queue-info.txt, and tells whether it did.
func (q *Queue) reload() bool {
	now, _, err := stampOf(q.dirs.root, queueInfo)
	q.mu.Lock()
	changed, file, info := q.set.changed(now), q.set.file, q.set.info
	told := q.set.announced == q.set.facts.SHA256
	q.mu.Unlock()
	if err == nil && !changed {
		if !told {
			// When the home was opened there was no room for the event. If
			// there is none now, it is tried again at the next call.
			_ = q.announce()
		}
		return false
	}
	var n settings
	if err == nil {
		n, err = q.readSettings()
	}
	if err == nil && n.info.Identifier != info.Identifier {
		err = fmt.Errorf("the identifier cannot change from %.80q; create a queue of the new name and move the jobs there", info.Identifier)
	}
	if err != nil {
		q.svc.report(Problem{Path: queuesDir + "/" + q.id + "/" + queueInfo, Text: err.Error() + "; the properties stay as they were"})
		if !transient(err) {
			q.mu.Lock()
			q.set.stamp, q.set.bad = now, err.Error()
			q.mu.Unlock()
		}
		return false
	}
	if q.adopt(n) != nil {
		return false // tried again at the next call
	}
	return string(n.file) != string(file)
}
