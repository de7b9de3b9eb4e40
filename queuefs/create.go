package queuefs

import (
	"context"
	"errors"
	"fmt"

	"cutie/queuefs/dir"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// CreateQueue makes an empty queue. It is served, and on stable storage, when
// CreateQueue returns. The error is [ErrQueueExists] or [job.ErrBadName].
func (s *Service) CreateQueue(ctx context.Context, info home.QueueInfo) (*Queue, error) {
	if info.Identifier == "" {
		info.Identifier = info.ID
	}
	id, err := job.CleanQueueID(info.Identifier)
	if err != nil {
		return nil, err
	}
	info.ID = id
	if err := info.Check(); err != nil {
		return nil, err
	}
	if info.Created.IsZero() {
		info.Created = job.Instant(s.now())
	}
	if err := s.beginChange(); err != nil {
		return nil, err
	}
	defer s.end()
	q, err := s.beginQueue(info)
	if err != nil {
		return nil, ledger.StorageError(err)
	}
	// Callers at the same time share the syncs. Named in queues.txt, the queue exists.
	if err := s.creating.Do(q, s.enlist); err != nil {
		s.queues.GiveUp(q)
		q.close()
		return nil, ledger.StorageError(err)
	}
	return q, nil
}

// beginQueue makes the files of a queue, unsynced, and keeps its names for it.
func (s *Service) beginQueue(info home.QueueInfo) (*Queue, error) {
	unlock, err := s.lockNew(info.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.free(info); err != nil {
		return nil, err
	}
	if s.known.mirrors[info.ID] != nil { // of a mirror that never came to be, or is gone
		err = s.forgetMirror(info.ID)
	}
	if err == nil {
		info.Callback, err = s.keepCallback(info.ID, info.Callback)
	}
	if err != nil {
		return nil, err
	}
	q, err := s.makeQueue(info.ID, info.Text(), 0, s.shared.Journal.Stats().Next)
	if err == nil {
		s.queues.Expect(q)
	}
	return q, err
}

// free returns [ErrQueueExists] if a queue has the identifier, the directory or the name,
// or is being made with it.
func (s *Service) free(info home.QueueInfo) error {
	same := s.queues.Coming(info.ID)
	if same == nil {
		same = s.open(info.ID)
	}
	switch {
	case same != nil && same.Names()[0] != info.Identifier:
		return fmt.Errorf("%.80s: %w under the identifier %.80q, and both have the directory %s", info.Identifier, ErrQueueExists, same.Names()[0], info.ID)
	case same != nil:
		return fmt.Errorf("%s: %w", info.ID, ErrQueueExists)
	}
	return s.queues.Free(info.Name, nil)
}

// enlist serves new queues. Their files are put on stable storage before their lines. A
// failed sync is final.
func (s *Service) enlist(queues []*Queue) error {
	if err := s.syncNew(); err != nil {
		return err
	}
	ids := make([]string, len(queues))
	for i, q := range queues {
		ids[i] = q.ID()
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	if err := s.noteMade(queues...); err != nil {
		return err
	}
	if err := s.properties.lines.Add(ids...); err != nil {
		return err
	}
	for _, q := range queues {
		s.add(q)
	}
	return nil
}

// lockNew takes the lock to make a queue, and before it that of checkpoints if
// there was a queue of the name: it has to be forgotten first.
func (s *Service) lockNew(id string) (unlock func(), err error) {
	s.properties.Lock()
	former, err := s.hasFormer(id)
	if err == nil && !former {
		return s.properties.Unlock, nil
	}
	s.properties.Unlock()
	if err != nil {
		return nil, err
	}
	s.upkeep.Lock()
	s.properties.Lock()
	return func() { s.properties.Unlock(); s.upkeep.Unlock() }, nil
}

// makeQueue makes the directories of a queue and its properties file, unsynced. modified is
// the date of the file in µs, 0 for now. Records before since are of former queues.
func (s *Service) makeQueue(id string, text []byte, modified int64, since journal.LSN) (*Queue, error) {
	if err := s.lostError(id); err != nil {
		return nil, err
	}
	root, err := s.dirs.queues.AddSub(id)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	switch taken, err := dir.Make(root); {
	case err != nil:
		return nil, err
	case taken: // without a line in queues.txt there must be no jobs
		return nil, fmt.Errorf("%s: %w as a directory with jobs that %s does not list; rebuild the home to take them in", id, ErrQueueExists, home.ListName)
	}
	if err := s.forgetFormer(id); err != nil {
		return nil, err
	}
	if err := root.Renew(home.QueueInfoName, text); err != nil {
		return nil, err
	}
	if modified != 0 {
		if err := root.Date(home.QueueInfoName, job.Instant(modified)); err != nil { // it is published
			return nil, err
		}
	}
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return nil, err
	}
	if err := s.index.New(q.ledger, since); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// noteMade puts new queues into the journal of a home in a store.
func (s *Service) noteMade(queues ...*Queue) error {
	changes := make([]record.HomeChange, len(queues))
	for i, q := range queues {
		now := q.ledger.Settings()
		changes[i] = record.HomeChange{Kind: record.QueueMade, Queue: q.ID(), Time: now.Written.UnixMicro(), Text: string(now.Text)}
	}
	return s.stored.Note(changes...)
}

// keepCallback is KeepCallback of the table, in the store too.
func (s *Service) keepCallback(id, url string) (public string, err error) {
	if url != "" && url != home.PublicURL(url) {
		if err := s.stored.Note(record.HomeChange{Kind: record.CallbackURL, Queue: id, Text: url}); err != nil {
			return "", err
		}
	}
	return s.index.Table.KeepCallback(id, url)
}

// hasFormer tells whether there was a queue of the name, which is not open.
func (s *Service) hasFormer(id string) (bool, error) {
	s.known.mu.RLock()
	_, stray := s.known.strays[id]
	s.known.mu.RUnlock()
	open := s.open(id) != nil
	if stray || open {
		return stray && !open, nil
	}
	if s.index.Has(id) {
		return true, nil
	}
	return home.Published(s.dirs.home, id)
}

// forgetFormer forgets all but the last numbers of a former queue, if there was
// one. Then the caller holds upkeep.
func (s *Service) forgetFormer(id string) error {
	former, err := s.hasFormer(id)
	if err != nil || !former {
		return err
	}
	s.known.mu.RLock()
	last, stray := s.known.strays[id]
	s.known.mu.RUnlock()
	if stray {
		if err := s.index.Retire(map[string]index.Numbers{id: last}); err != nil {
			return err
		}
	}
	return s.forget(id)
}

// RemoveQueue removes a queue without jobs, with its directory, its index and its
// published documents. Consumers waiting for its jobs get [ledger.ErrNoQueue]. The error
// is [ledger.ErrNotEmpty] if it has jobs, or foreign files in its directory.
//
// The queue stays removed when RemoveQueue returns. Files left after an error are
// reported, and have no use. A later queue of the name is another one, except that
// its numbers of jobs and events go on.
func (s *Service) RemoveQueue(ctx context.Context, name string) error {
	return s.RemoveQueueIf(ctx, name, func(*Queue) error { return nil })
}

// RemoveQueueIf is RemoveQueue with a condition: may is called for the queue
// without jobs, and again once it is sealed, but still found. If may fails, the
// queue stays, with the error of may.
func (s *Service) RemoveQueueIf(ctx context.Context, name string, may func(*Queue) error) error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	q, err := s.Ask(name)
	if err == nil {
		err = q.original.Refuse()
	}
	if err != nil {
		return err
	}
	ask := func() error { return may(q) }
	// Run every check before sealing the queue, so that clients never see a queue
	// vanish and come back.
	if err := s.removable(q, ask); err != nil {
		return err
	}
	if err := q.ledger.Seal(ctx); err != nil {
		return err
	}
	if err = ask(); err == nil {
		// With the events in the files, the journal is needed for none of them.
		err = s.checkpointLocked(allFiles)
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	if err == nil {
		err = s.unlist(q)
	}
	if err != nil {
		q.ledger.Unseal()
		return err
	}
	s.takeAway(q)
	return nil
}

// takeAway ends the service of a queue that is not listed any more, and removes its files.
func (s *Service) takeAway(q *Queue) {
	s.drop(q)
	s.leftBehind(q.ID(), errors.Join(home.RemoveQueue(s.dirs.queues, s.dirs.temp, q.ID()), s.forget(q.ID()),
		s.index.Table.SettleCallback(q.ID(), ""), s.forgetMirror(q.ID())))
}

// removable returns the reason against a removal, as long as no job comes.
func (s *Service) removable(q *Queue, ask func() error) error {
	if err := q.ledger.Bare(); err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	if err := s.checkpointLocked(allFiles); err != nil {
		return err
	}
	strange := q.onlyOurs()
	if err := q.ledger.Bare(); err != nil {
		return err // the files of a new job
	}
	return strange
}

// unlist removes a sealed queue from queues.txt: from then on it does not exist. A
// crash leaves directories without a use.
func (s *Service) unlist(q *Queue) error {
	if err := q.onlyOurs(); err != nil {
		return err
	}
	return s.delist(q)
}

// delist is unlist of a queue whatever its files.
func (s *Service) delist(q *Queue) error {
	return s.strikeOut(q.ID(), func() error { return s.noteGone(q) })
}

// strikeOut takes a line out of queues.txt, after note.
func (s *Service) strikeOut(id string, note func() error) error {
	was, err := home.ReadList(s.dirs.home)
	if err == nil {
		err = note()
	}
	if err != nil {
		return ledger.StorageError(err)
	}
	if err := was.Drop(id).Write(s.dirs.home); err != nil {
		now, e := home.ReadList(s.dirs.home)
		if e == nil && string(now) == string(was) && s.stored == nil {
			return ledger.StorageError(err) // nothing has happened
		}
		// Whether the queue is listed after a crash is in doubt: no job must
		// come to it.
		s.shared.Gate.Fail(err)
		return errors.Join(ledger.ErrFailed, err)
	}
	return nil
}

// noteGone puts the end of a queue into the journal of a home in a store.
func (s *Service) noteGone(q *Queue) error {
	return s.stored.Note(record.HomeChange{Kind: record.QueueGone, Queue: q.ID()})
}

// onlyOurs refuses a queue directory with foreign files: an operator must look at
// them first.
func (q *Queue) onlyOurs() error {
	err := q.dir.Foreign(home.QueueInfoName)
	if errors.Is(err, dir.ErrForeign) {
		err = fmt.Errorf("%s: %w: %w; look at it and move it away", q.ID(), ledger.ErrNotEmpty, err)
	}
	return err
}

// sweepRemoved removes the remains of removed queues, and of unfinished ones.
func (s *Service) sweepRemoved() error {
	if err := home.SweepRemoved(s.dirs.temp, s.report); err != nil {
		return err
	}
	if s.stored == nil {
		if err := home.SweepFormer(s.dirs.temp, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the index and the published documents of a queue that is not
// listed, and calls the followers.
func (s *Service) forget(id string) error {
	if f, ok := s.upkeep.follower.(Forgetter); ok {
		if err := f.Forget(id); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
	}
	if err := errors.Join(s.index.Forget(id), s.dropPacks(id)); err != nil {
		return err
	}
	return home.RemovePublished(s.dirs.home, id)
}

// leftBehind reports files left of a removed queue.
func (s *Service) leftBehind(id string, err error) {
	if err != nil {
		s.report(home.QueuesDir+"/"+id, err.Error()+"; left behind of a queue that was removed")
	}
}

// forgetMirror removes the row of a former mirror.
func (s *Service) forgetMirror(id string) error {
	delete(s.known.mirrors, id)
	return s.index.Table.ForgetMirror(id)
}
