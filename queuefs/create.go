package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/properties"
	"cutie/queuefs/tree"
)

// CreateQueue makes an empty queue. It is served, and on stable storage, when
// CreateQueue returns. The error is [ErrQueueExists] or [ErrBadName].
func (s *Service) CreateQueue(ctx context.Context, info QueueInfo) (*Queue, error) {
	if info.Identifier == "" {
		info.Identifier = info.ID
	}
	id, err := CleanQueueID(info.Identifier)
	if err != nil {
		return nil, err
	}
	info.ID = id
	if err := info.Check(); err != nil {
		return nil, err
	}
	if info.Created.IsZero() {
		info.Created = micro(s.now())
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	unlock, err := s.lockNew(id)
	if err != nil {
		return nil, storageError(err)
	}
	defer unlock()
	switch same := s.open(id); {
	case same != nil && same.info().Identifier != info.Identifier:
		return nil, fmt.Errorf("%.80s: %w under the identifier %.80q, and both have the directory %s", info.Identifier, ErrQueueExists, same.info().Identifier, id)
	case same != nil || s.named(info.Name, nil):
		return nil, fmt.Errorf("%s: %w", id, ErrQueueExists)
	}
	callbacks := &s.properties.callbacks
	if info.Callback, err = callbacks.Keep(id, info.Callback); err != nil {
		return nil, storageError(err)
	}
	q, err := s.makeQueue(info)
	if err != nil {
		return nil, storageError(err)
	}
	// Named in queues.txt, the queue exists.
	if err := s.listQueue(id); err != nil {
		q.close()
		return nil, storageError(err)
	}
	s.add(q)
	return q, nil
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

// makeQueue makes the directories of a queue and its properties file.
func (s *Service) makeQueue(info QueueInfo) (*Queue, error) {
	root, err := s.dirs.queues.MakeSub(info.ID)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	switch taken, err := tree.Make(root); {
	case err != nil:
		return nil, err
	case taken: // without a line in queues.txt there must be no jobs
		return nil, fmt.Errorf("%s: %w as a directory with jobs that %s does not list; rebuild the home to take them in", info.ID, ErrQueueExists, home.ListName)
	}
	if err := s.forgetFormer(info.ID); err != nil {
		return nil, err
	}
	if err := root.Replace(home.QueueInfoName, info.Text()); err != nil {
		return nil, err
	}
	q, err := s.openQueue(info.ID, (*properties.Queue).Read)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.index.New(q.ledger, s.shared.Journal.Stats().Next), s.index.Sync()); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// listQueue adds a queue to queues.txt.
func (s *Service) listQueue(id string) error {
	list, err := home.ReadList(s.dirs.home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return list.Add(id).Write(s.dirs.home)
}

// hasFormer tells whether there was a queue of the name, which is not open.
func (s *Service) hasFormer(id string) (bool, error) {
	s.list.mu.RLock()
	_, stray := s.list.strays[id]
	open := s.list.byID[id] != nil
	s.list.mu.RUnlock()
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
	s.list.mu.RLock()
	last, stray := s.list.strays[id]
	s.list.mu.RUnlock()
	if stray {
		if err := s.index.Retire(map[string]index.Numbers{id: last}); err != nil {
			return err
		}
	}
	return s.forget(id)
}
