package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
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
	if err := info.check(); err != nil {
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
	if s.open(id) != nil || s.named(info.Name, nil) {
		return nil, fmt.Errorf("%s: %w", id, ErrQueueExists)
	}
	q, err := s.makeQueue(info)
	if err != nil {
		return nil, storageError(err)
	}
	// Named in queues.txt, the queue exists.
	if err := s.listQueue(id); err != nil {
		q.tree.Close()
		return nil, storageError(err)
	}
	s.add(q)
	return q, nil
}

// lockNew takes the lock to make a queue, and before it that of checkpoints if
// there was a queue of the name: it has to be forgotten first.
func (s *Service) lockNew(id string) (unlock func(), err error) {
	s.set.Lock()
	former, err := s.hasFormer(id)
	if err == nil && !former {
		return s.set.Unlock, nil
	}
	s.set.Unlock()
	if err != nil {
		return nil, err
	}
	s.upkeep.Lock()
	s.set.Lock()
	return func() { s.set.Unlock(); s.upkeep.Unlock() }, nil
}

// makeQueue makes the directories of a queue and its properties file.
func (s *Service) makeQueue(info QueueInfo) (*Queue, error) {
	root, err := s.qdir.MakeSub(info.ID)
	if err != nil {
		return nil, err
	}
	taken := false
	for _, n := range []string{tree.Payloads, Pending.String(), Consumed.String(), Deleted.String()} {
		d, err := root.MakeSub(n)
		if err == nil {
			err = d.Names(func(name string) { taken = taken || !strings.HasPrefix(name, durable.TempPrefix) })
			d.Close()
		}
		if err == nil && taken {
			err = fmt.Errorf("%s: %w as a directory with jobs that %s does not list; rebuild the home to take them in", info.ID, ErrQueueExists, queuesName)
		}
		if err != nil {
			root.Close()
			return nil, err
		}
	}
	err = s.forgetFormer(info.ID)
	if err == nil {
		err = root.Replace(queueInfo, info.file())
	}
	root.Close()
	if err != nil {
		return nil, err
	}
	q, err := s.openQueue(info.ID, (*Queue).readSettings)
	if err == nil {
		if err = q.begin(); err != nil {
			q.tree.Close()
		}
	}
	return q, err
}

// begin writes the queue file of the index before the queue has had an event of
// its own: earlier records of the name are of a former queue. Until the next
// checkpoint the journal has all jobs of a queue that begins without any, and
// the directories stand in for the pages of another.
func (q *Queue) begin() error {
	dir, err := q.indexDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	former, err := q.svc.former(q.id)
	if err != nil {
		return err
	}
	q.idx.Reach(former)
	q.life.before = q.idx.Last().Seq
	q.set.announced = q.set.facts.SHA256 // the queue begins with this file
	q.life.since = q.svc.log.Stats().Next
	x := q.indexed(q.life.since)
	x.Bare, x.Empty = true, q.idx.Pages() == 0
	return indexfile.QueueIn(dir, q.id).Write(x.Text())
}

// beginAgain is for a journal taken away by other hands: its numbers begin
// anew, and new records must not be taken for those of former queues.
func (s *Service) beginAgain() error {
	at, late := s.log.Stats().Next, false
	for _, q := range s.queues {
		if q.life.since > at {
			q.life.since, q.idx.Changed, late = at, true, true
		}
	}
	if !late {
		return nil
	}
	return s.checkpoint(false)
}

// listQueue adds a queue to queues.txt.
func (s *Service) listQueue(id string) error {
	data, err := s.home.ReadFile(queuesName, nil, 64<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return s.home.Replace(queuesName, append(append(data, id...), '\n'))
}

// openQueue opens the directories of a queue and gives it its properties.
func (s *Service) openQueue(id string, properties func(*Queue) (settings, error)) (_ *Queue, err error) {
	q := &Queue{svc: s, id: id, packs: packs{made: map[int]bool{}, loaded: map[int]map[JobID]*copied{}}, idx: index.New(id), backlog: backlog{temps: map[JobID]string{}}}
	report := func(path, text string) { s.report(Problem{Path: path, Text: text}) }
	q.tree, err = tree.Open(s.qdir, id, tree.Options{Path: queuesDir + "/" + id, Temp: s.temp, MaxJobFile: maxJobFile, Report: report})
	if err != nil {
		return nil, err
	}
	now, err := properties(q)
	if err != nil {
		q.tree.Close()
		return nil, err
	}
	q.use(now)
	q.idx.Reach(index.Numbers{Time: q.set.info.Created.UnixMicro()})
	return q, nil
}
