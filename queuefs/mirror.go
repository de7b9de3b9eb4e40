package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/upload"
)

// A ReplayEvent is an event of an original.
type ReplayEvent = replay.Event

// A mirror is read, and published, as all queues are. Until the takeover its original alone
// changes it, and no deadline ends.

// Adopt serves the copy of a queue as a mirror: the directory below [home.CopiesDir] of
// the name, on stable storage, becomes that of the queue. The error is [ErrQueueExists],
// also where a former queue of the name had events, or [ErrBadName]. events are replayed
// before the queue is served, to explain files missing in the copy. After a crash Adopt
// with the same mirror goes on.
func (s *Service) Adopt(ctx context.Context, id string, m Mirror, events []ReplayEvent, settings []byte) (*Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if clean, err := CleanQueueID(id); err != nil || clean != id {
		return nil, errors.Join(err, fmt.Errorf("%w: %.80q", ErrBadName, id))
	}
	if s.stored != nil { // the jobs of a copy are in no journal
		return nil, fmt.Errorf("%s: a mirror: %w", id, ErrStored)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	q, err := s.beginMirror(id, &m)
	if err != nil {
		return nil, ledger.StorageError(err)
	}
	// All job files are read here, and others work on meanwhile.
	if _, err = q.load(s.index.File(id), indexfile.Checkpoint{}, false); err == nil {
		err = s.serveMirror(q, &m, events, settings)
	}
	if err != nil {
		s.queues.GiveUp(q)
		q.close()
		return nil, ledger.StorageError(err)
	}
	return q, nil
}

// beginMirror makes a copy the directory of a queue, and keeps its names for it.
func (s *Service) beginMirror(id string, m *Mirror) (*Queue, error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.properties.Lock()
	defer s.properties.Unlock()
	if s.open(id) != nil || s.queues.Coming(id) != nil {
		return nil, fmt.Errorf("%s: %w", id, ErrQueueExists)
	}
	if !s.properties.mirrors.Ready(s.dirs.queues, id) {
		return nil, fmt.Errorf("%s: %w: the copy has no %s", id, ErrConflict, home.QueueInfoName)
	}
	former, err := s.index.Numbers(id)
	if err != nil {
		return nil, err
	}
	if former.Seq > 0 && s.known.mirrors[id] == nil { // else they are those of an original
		return nil, fmt.Errorf("%s: %w: a former queue of the name had numbers up to job %d and event %d", id, ErrQueueExists, former.Job, former.Seq)
	}
	if err := s.properties.mirrors.Write(id, m); err != nil {
		return nil, err
	}
	if err := s.properties.mirrors.Settle(s.dirs.queues, id); err != nil {
		return nil, err
	}
	if err := s.index.Reset(id, numbersOf(m)); err != nil {
		return nil, err
	}
	if s.known.mirrors == nil {
		s.known.mirrors = map[string]*home.Mirror{}
	}
	s.known.mirrors[id] = m
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", home.QueueInfoName, err)
	}
	if s.queues.Taken(q.info().Name, nil) {
		q.close()
		return nil, fmt.Errorf("%s: its name %.80q: %w", id, q.info().Name, ErrQueueExists)
	}
	s.queues.Expect(q)
	return q, nil
}

// serveMirror serves the queue of beginMirror, with its jobs loaded.
func (s *Service) serveMirror(q *Queue, m *Mirror, events []ReplayEvent, settings []byte) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.properties.Lock()
	defer s.properties.Unlock()
	q.ledger.Note(func(x *index.Index) { x.Reach(numbersOf(m)) })
	err := errors.Join(s.index.New(q.ledger, s.shared.Journal.Stats().Next), s.index.Sync())
	if err == nil {
		err = q.original.Adopted()
	}
	if err == nil {
		err = q.replay(events, settings)
	}
	if err == nil {
		err = s.properties.lines.Add(q.ID())
	}
	if err == nil {
		s.add(q)
	}
	return err
}

// numbersOf returns the last numbers known of an original at its copy.
func numbersOf(m *Mirror) index.Numbers { return index.Numbers{Seq: m.Event, Time: m.At.UnixMicro()} }

// DropMirror removes a mirror with its jobs; then Adopt may begin it anew, with any
// numbers. It is gone on stable storage when DropMirror returns. The error is [ErrConflict]
// for a queue that is live.
func (s *Service) DropMirror(ctx context.Context, name string) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	q, err := s.Ask(name)
	if err != nil {
		return err
	}
	if !q.Mirror().Live() {
		return fmt.Errorf("%s: %w: it is no mirror", q.ID(), ErrConflict)
	}
	err = q.original.Replay(func() error { // no other is on its way then
		s.upkeep.Lock()
		defer s.upkeep.Unlock()
		if err := s.checkpointLocked(allFiles); err != nil {
			return err
		}
		s.properties.Lock()
		defer s.properties.Unlock()
		if err := s.delist(q); err != nil {
			return err
		}
		s.drop(q)
		s.leftBehind(q.ID(), errors.Join(home.MoveQueueAway(s.dirs.queues, s.dirs.temp, q.ID()), s.forget(q.ID())))
		return nil
	})
	if err == nil {
		s.leftBehind(q.ID(), home.RemoveMoved(s.dirs.temp, q.ID()))
	}
	return err
}

// LastEvent returns number and time of the last event; the time is that of the creation
// without one.
func (q *Queue) LastEvent() (seq Seq, at time.Time) {
	q.look(func(x *index.Index) { seq, at = x.Last().Seq, job.Instant(x.Last().Time) })
	return seq, at
}

// StoreFile puts a payload or a result for Replay into a temporary file, on stable
// storage, and returns its name. The error is [ErrDigest] if it is not as in facts.
func (s *Service) StoreFile(in io.Reader, facts *Facts) (name string, err error) {
	up, err := upload.InFile(s.spool)
	if err != nil {
		return "", ledger.StorageError(err)
	}
	name = up.Temp()
	if _, err = up.ReadFrom(in); err == nil && (up.Size() != facts.Length || up.SHA256() != facts.SHA256) {
		err = ErrDigest
	}
	if err == nil {
		err = errors.Join(up.Sync(), s.dirs.temp.Sync())
	}
	up.Close()
	if err != nil {
		s.DropFile(name)
	}
	return name, ledger.StorageError(err)
}

// DropFile removes a file of StoreFile not replayed.
func (s *Service) DropFile(name string) {
	if s.Err() == nil {
		s.dirs.temp.Remove(name)
	}
}

// Begun returns the mirror of a queue with an Adopt cut off by a crash.
func (s *Service) Begun(id string) (Mirror, bool) {
	s.properties.Lock()
	defer s.properties.Unlock()
	if m := s.known.mirrors[id]; m.Live() && m.Bad == "" && s.open(id) == nil && s.properties.mirrors.Ready(s.dirs.queues, id) {
		return *m, true
	}
	return Mirror{}, false
}

// Replay appends events of the original, all or none, and returns when they are on
// stable storage. Temporary files they name are the queue's from then on. Events that
// the mirror has are passed over. settings is the queue-info.txt of the last event of it
// among them, nil without one. Errors are ErrDiverged, ErrTooBig, ErrNoSpace, those of
// storage, and one for a queue taken over.
func (q *Queue) Replay(ctx context.Context, events []ReplayEvent, settings []byte) error {
	bytes := int64(len(settings))
	for i := range events {
		bytes += int64(1024 + len(events[i].Data) + len(events[i].Text))
	}
	if err := q.makeRoom(ctx, len(events), bytes); err != nil {
		return err
	}
	return q.original.Replay(func() error {
		if settings != nil {
			q.svc.properties.Lock()
			defer q.svc.properties.Unlock()
		}
		return q.replay(events, settings)
	})
}

// replay is Replay; with settings the caller holds properties.
func (q *Queue) replay(events []ReplayEvent, settings []byte) error {
	var use *home.Settings
	if settings != nil {
		written, err := q.infoFile.Replace(settings)
		if err != nil {
			return ledger.StorageError(err)
		}
		use = q.settingsOf(written)
	}
	err := q.record(func(b *ledger.Batch) error { return replay.Records(b, events, use, q.svc.opts.Now()) })
	if err == nil && use != nil {
		q.infoFile.Take(use.Reading)
		q.svc.queues.Renamed()
	}
	return err
}

// Takeover ends the mirror: the queue takes changes and hands out jobs from then on, and
// numbers go on behind those of the original; known is the highest number of a job it is
// known to have had, and event its last event, 0 for the last one here. It is on stable
// storage when Takeover returns. Of a queue taken over before nothing changes.
func (q *Queue) Takeover(ctx context.Context, known JobID, event Seq) (Mirror, error) {
	if err := ctx.Err(); err != nil {
		return Mirror{}, err
	}
	if err := q.svc.begin(); err != nil {
		return Mirror{}, err
	}
	defer q.svc.end()
	if q.Mirror() == nil {
		return Mirror{}, fmt.Errorf("%s: %w: it is no mirror", q.ID(), ErrConflict)
	}
	was, err := q.original.TakeOver(job.Instant(q.svc.now()), known, event)
	if err != nil {
		return Mirror{}, ledger.StorageError(err)
	}
	if was {
		if err := q.findLeases(); err != nil {
			q.svc.report(home.QueueInfoPath(q.ID()), err.Error()+"; leases and keys from before the takeover are known again after a restart")
		}
		q.ledger.Touch()
		q.ledger.Wake()
		q.svc.shared.Happened.Raise()
	}
	return *q.Mirror(), nil
}

// Succeed makes a queue the successor of its original, as after a takeover. It holds
// when the home is opened again.
func (q *Queue) Succeed(m Mirror) error {
	m.Job = replay.LastJob(q.ledger, m.Event)
	return ledger.StorageError(q.svc.properties.mirrors.Write(q.ID(), &m))
}
