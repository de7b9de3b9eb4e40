package queuefs

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"cutie/queuefs/durable"
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
	if info.CullingSize < -1 || info.CullingAge < -1 {
		return nil, fmt.Errorf("%w: negative culling threshold", ErrBadName)
	}
	for _, v := range []*string{&info.Identifier, &info.Name, &info.Description} {
		if len(*v) > 4*maxLabel {
			return nil, fmt.Errorf("queue property: %w", ErrTooBig)
		}
		*v = cleanLabel(*v)
	}
	if info.Created.IsZero() {
		info.Created = micro(s.now())
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.mu.RLock()
	_, taken := s.byID[id]
	for _, q := range s.queues {
		taken = taken || info.Name != "" && q.info.Name == info.Name
	}
	s.mu.RUnlock()
	if taken {
		return nil, fmt.Errorf("%s: %w", id, ErrQueueExists)
	}
	q, err := s.makeQueue(info)
	if err != nil {
		return nil, storageError(err)
	}
	// Named in queues.txt, the queue exists.
	if err := s.listQueue(id); err != nil {
		q.closeDirs()
		return nil, storageError(err)
	}
	s.mu.Lock()
	s.byID[id] = q
	s.queues = append(s.queues, q)
	s.mu.Unlock()
	return q, nil
}

// makeQueue makes the directories of a queue and its properties file.
func (s *Service) makeQueue(info QueueInfo) (*Queue, error) {
	root, err := s.qdir.MakeSub(info.ID)
	if err != nil {
		return nil, err
	}
	taken := false
	for _, n := range []string{payloadDir, Pending.String(), Consumed.String(), Deleted.String()} {
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
	err = root.Replace(queueInfo, info.file())
	root.Close()
	if err != nil {
		return nil, err
	}
	return s.openQueue(info.ID)
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

// openQueue opens the directories of a queue and reads its properties.
func (s *Service) openQueue(id string) (_ *Queue, err error) {
	q := &Queue{svc: s, id: id, types: []string{""}, typeNums: map[string]uint16{},
		unfiled: map[JobID]unfiled{}, temps: map[JobID]string{}}
	q.idx.head = 1
	defer func() {
		if err != nil {
			q.closeDirs()
		}
	}()
	if q.dirs.root, err = s.qdir.Sub(id); err != nil {
		return nil, err
	}
	if q.dirs.payload, err = q.dirs.root.MakeSub(payloadDir); err != nil {
		return nil, err
	}
	for st := Pending; st <= Deleted; st++ {
		if q.dirs.status[st], err = q.dirs.root.MakeSub(st.String()); err != nil {
			return nil, err
		}
	}
	data, err := q.dirs.root.ReadFile(queueInfo, nil, 1<<20)
	if err != nil {
		return nil, err
	}
	if q.info, err = parseQueueInfo(id, data); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", id, queueInfo, err)
	}
	q.infoFile = data
	st, err := q.dirs.root.Stat(queueInfo)
	if err != nil {
		return nil, err
	}
	changed := time.Unix(st.Mtim.Unix()).UTC().Truncate(time.Microsecond)
	if q.info.Created.IsZero() {
		q.info.Created = changed
	}
	q.infoFacts = Facts{Length: int64(len(data)), SHA256: sha256.Sum256(data), MD5: md5.Sum(data), Type: jobFileType, Modified: changed}
	q.seqTime = q.info.Created.UnixMicro()
	q.mint.time = q.seqTime
	return q, nil
}

func (q *Queue) closeDirs() {
	for _, d := range []*durable.Dir{q.dirs.root, q.dirs.payload, q.dirs.status[Pending], q.dirs.status[Consumed], q.dirs.status[Deleted]} {
		if d != nil {
			d.Close()
		}
	}
}
