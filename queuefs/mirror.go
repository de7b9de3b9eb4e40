package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/replay"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
)

// A mirror is read, and published, as all queues are. Until the takeover its original alone
// changes it, and no deadline ends.

// Adopt serves the copy of a queue as a mirror: the directory below [home.CopiesDir] of
// the name, on stable storage, becomes that of the queue. The error is [ErrQueueExists],
// also where a former queue of the name had events, or [job.ErrBadName]. events are replayed
// before the queue is served, to explain files missing in the copy. After a crash Adopt
// with the same mirror goes on.
func (s *Service) Adopt(ctx context.Context, id string, m home.Mirror, events []replay.Event, settings []byte) (*Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if clean, err := job.CleanQueueID(id); err != nil || clean != id {
		return nil, errors.Join(err, fmt.Errorf("%w: %.80q", job.ErrBadName, id))
	}
	if s.stored != nil { // the jobs of a copy are in no journal
		return nil, fmt.Errorf("%s: a mirror: %w", id, stored.ErrStored)
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
	if _, err = q.load(s.index.File(id), table.Checkpoint{}, false); err == nil {
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
func (s *Service) beginMirror(id string, m *home.Mirror) (*Queue, error) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.properties.Lock()
	defer s.properties.Unlock()
	if s.open(id) != nil || s.queues.Coming(id) != nil {
		return nil, fmt.Errorf("%s: %w", id, ErrQueueExists)
	}
	if !home.CopyReady(s.dirs.home, s.dirs.queues, id) {
		return nil, fmt.Errorf("%s: %w: the copy has no %s", id, job.ErrConflict, home.QueueInfoName)
	}
	former, err := s.index.Numbers(id)
	if err != nil {
		return nil, err
	}
	if former.Seq > 0 && s.known.mirrors[id] == nil { // else they are those of an original
		return nil, fmt.Errorf("%s: %w: a former queue of the name had numbers up to job %d and event %d", id, ErrQueueExists, former.Job, former.Seq)
	}
	if err := s.index.Table.SetMirror(id, m); err != nil {
		return nil, err
	}
	if err := home.SettleCopy(s.dirs.home, s.dirs.queues, id); err != nil {
		return nil, err
	}
	s.index.Reset(id, numbersOf(m))
	s.known.mirrors[id] = m
	q, err := s.openQueue(id, (*Queue).readSettings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", home.QueueInfoName, err)
	}
	if err := s.queues.Free(q.info().Name, nil); err != nil {
		q.close()
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	s.queues.Expect(q)
	return q, nil
}

// serveMirror serves the queue of beginMirror, with its jobs loaded.
func (s *Service) serveMirror(q *Queue, m *home.Mirror, events []replay.Event, settings []byte) error {
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
func numbersOf(m *home.Mirror) index.Numbers {
	return index.Numbers{Seq: m.Event, Time: m.At.UnixMicro()}
}

// DropMirror removes a mirror with its jobs; then Adopt may begin it anew, with any
// numbers. It is gone on stable storage when DropMirror returns. The error is [job.ErrConflict]
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
		return fmt.Errorf("%s: %w: it is no mirror", q.ID(), job.ErrConflict)
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
func (q *Queue) LastEvent() (seq job.Seq, at time.Time) {
	q.ledger.Look(func(x *index.Index) { seq, at = x.Last().Seq, job.Instant(x.Last().Time) })
	return seq, at
}

// StoreFile puts a payload or a result for Replay into a temporary file, on stable
// storage, and returns its name. The error is [digest.ErrMismatch] if it is not as in facts.
func (s *Service) StoreFile(in io.Reader, facts *job.Facts) (name string, err error) {
	var up payload
	up.begin(&budget{spool: s.spool})
	defer up.close()
	if err := up.spill(); err != nil { // to the file, whatever the size
		return "", err
	}
	name = up.temp()
	if _, err = up.ReadFrom(in); err == nil && (up.size != facts.Length || up.sha256() != facts.SHA256) {
		err = digest.ErrMismatch
	}
	if err == nil {
		err = errors.Join(up.file.Sync(), s.dirs.temp.Sync())
	}
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
func (s *Service) Begun(id string) (home.Mirror, bool) {
	s.properties.Lock()
	defer s.properties.Unlock()
	m := s.known.mirrors[id]
	if m.Live() && m.Bad == "" && s.open(id) == nil && home.CopyReady(s.dirs.home, s.dirs.queues, id) {
		return *m, true
	}
	return home.Mirror{}, false
}

// Replay appends events of the original, all or none, and returns when they are on
// stable storage. Temporary files they name are the queue's from then on. Events that
// the mirror has are passed over. settings is the queue-info.txt of the last event of it
// among them, nil without one. Errors are replay.ErrDiverged, job.ErrTooBig, ledger.ErrNoSpace, those of
// storage, and one for a queue taken over.
func (q *Queue) Replay(ctx context.Context, events []replay.Event, settings []byte) error {
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
func (q *Queue) replay(events []replay.Event, settings []byte) error {
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
func (q *Queue) Takeover(ctx context.Context, known job.ID, event job.Seq) (home.Mirror, error) {
	if err := ctx.Err(); err != nil {
		return home.Mirror{}, err
	}
	if err := q.svc.begin(); err != nil {
		return home.Mirror{}, err
	}
	defer q.svc.end()
	if q.Mirror() == nil {
		return home.Mirror{}, fmt.Errorf("%s: %w: it is no mirror", q.ID(), job.ErrConflict)
	}
	was, err := q.original.TakeOver(job.Instant(q.svc.now()), known, event)
	if err != nil {
		return home.Mirror{}, ledger.StorageError(err)
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
func (q *Queue) Succeed(m home.Mirror) error {
	m.Job = replay.LastJob(q.ledger, m.Event)
	return ledger.StorageError(q.svc.index.Table.SetMirror(q.ID(), &m))
}

// A standby has the state of its owner: it applies the records of the journal as they
// come, with the changes of the home among them. The directory follows as ever.
// Each change ends with [journal.ErrFollowing], and no deadline ends. Advance, TakeOver and Leave
// are for one caller at a time.

// A Standing is the relation of a process to its home in a store.
type Standing struct {
	Standby bool            // another process owns the home, or none does
	Left    bool            // this process was the last owner, and has left
	Owner   bucket.Owner    // this process or another one
	Batch   uint64          // the last one of the journal that is known here
	As      time.Time       // of a standby: it has all changes up to this time
	Image   Imaged          // of the owner
	Trouble *bucket.Trouble // of the owner with the store; nil: there is none
}

// An Imaged is the last image of a home in a store.
type Imaged struct {
	Made  time.Time // zero: there is none
	Since int64     // records of the journal since, to be read by a new machine
	Err   error     // why the last attempt failed; nil: it did not
}

// Standing returns the standing; false for a home in its directory.
func (s *Service) Standing() (st Standing, ok bool) {
	if s.stored == nil {
		return st, false
	}
	st.Owner, st.Standby = s.stored.Owner()
	st.Left, st.Batch = s.stored.Left(), s.stored.Log.Position()
	if st.Standby {
		st.As = s.stored.UpToDate()
		return st, true
	}
	st.Trouble = s.stored.Log.Trouble()
	log := s.stored.Log.Stats()
	st.Image = Imaged{Since: int64(log.Next - log.First), Err: s.stored.Images.Err()}
	if m := s.stored.Images.Last(); m != nil {
		st.Image.Made, st.Image.Since = time.UnixMicro(m.Made).UTC(), int64(log.Next-m.At)
	}
	return st, true
}

// Pulse gives signs of life of the owner of a home in a store.
func (s *Service) Pulse() *bucket.Pulse { return s.stored.Pulse() }

// Vigil watches the owner of a home in a store, and says when this standby has to be
// opened again: then its error is [journal.ErrReleased].
func (s *Service) Vigil() *bucket.Vigil { return s.stored.Vigil() }

// Advance applies the next batch of the owner, and reports whether there was one. If the
// error is that of a batch or payload that cannot be read, it may be tried again; after
// [ErrBehind] the home must be opened again.
func (s *Service) Advance(ctx context.Context) (more bool, err error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	defer s.end()
	n, err := s.stored.Next(ctx)
	if n == nil || err != nil {
		return false, behind(err)
	}
	if err := n.Apply(s.follow); err != nil {
		err = fmt.Errorf("batch %d: %w", s.stored.Log.Position(), err)
		s.shared.Gate.Fail(err) // a part of it was applied
		return false, errors.Join(ledger.ErrFailed, err)
	}
	return true, s.stored.Applied(ctx, n)
}

// follow applies a record of the owner.
func (s *Service) follow(rec journal.Record) error {
	c, is, err := record.ParseHomeChange(rec.Data)
	if err != nil {
		return err
	}
	if is {
		return s.followHome(&c, rec.LSN)
	}
	var r record.Record
	if err := r.Parse(rec.Data); err != nil {
		return err
	}
	q := s.open(r.Queue)
	switch {
	case q == nil:
		return fmt.Errorf("event %d of queue %s: %w", r.Seq, r.Queue, ledger.ErrNoQueue)
	case r.Job == 0 && r.Kind != job.Phase:
		return s.followSettings(q, &r, rec.LSN)
	}
	q.ledger.Follow(&r, rec.LSN, nil)
	return nil
}

// followSettings puts the properties of an event of queue-info.txt in force.
func (s *Service) followSettings(q *Queue, r *record.Record, at journal.LSN) error {
	s.properties.Lock()
	defer s.properties.Unlock()
	root := q.dir.Root()
	if len(r.File.Text) > 0 { // else it came before
		if err := root.Replace(home.QueueInfoName, r.File.Text); err != nil {
			return err
		}
	}
	if err := root.Date(home.QueueInfoName, job.Instant(r.Payload.Submitted)); err != nil { // it is published
		return err
	}
	now, err := q.readSettings()
	if err != nil {
		return err
	}
	q.infoFile.Take(now.Reading)
	q.ledger.Follow(r, at, now)
	s.queues.Renamed()
	return s.index.Table.SettleCallback(q.ID(), now.Rules().Callback)
}

// followHome applies a change of the home.
func (s *Service) followHome(c *record.HomeChange, at journal.LSN) error {
	switch c.Kind {
	case record.QueueMade:
		return s.followMade(c, at)
	case record.QueueGone:
		return s.followGone(c.Queue)
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	switch c.Kind {
	case record.CallbackURL:
		_, err := s.index.Table.KeepCallback(c.Queue, c.Text)
		return err
	case record.QueueInfo: // its event follows
		q := s.open(c.Queue)
		if q == nil {
			return fmt.Errorf("properties of queue %s: %w", c.Queue, ledger.ErrNoQueue)
		}
		return q.dir.Root().Replace(home.QueueInfoName, []byte(c.Text))
	case record.ServiceInfo:
		return s.followService(c.Text)
	}
	return nil
}

func (s *Service) followService(text string) error {
	file := s.properties.service
	r, err := file.Read()
	if err != nil || string(r.Text) != text {
		r, err = file.Replace([]byte(text))
	}
	if err != nil {
		return err
	}
	file.Take(r)
	s.takeInfo(r)
	return s.index.KeepService(r.Text)
}

// followMade serves a new queue.
func (s *Service) followMade(c *record.HomeChange, at journal.LSN) error {
	unlock, err := s.lockNew(c.Queue)
	if err != nil {
		return err
	}
	defer unlock()
	if s.open(c.Queue) != nil {
		return fmt.Errorf("queue %s is made: %w", c.Queue, ErrQueueExists)
	}
	q, err := s.makeQueue(c.Queue, []byte(c.Text), c.Time, at)
	if err != nil {
		return err
	}
	if err = s.syncNew(); err == nil {
		err = s.properties.lines.Add(c.Queue)
	}
	if err != nil {
		q.close()
		return err
	}
	s.add(q)
	s.queues.Renamed()
	return nil
}

// followGone takes a queue away. Its last numbers stay.
func (s *Service) followGone(id string) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	q := s.open(id)
	if q == nil {
		return nil
	}
	if err := q.ledger.Seal(context.Background()); err != nil {
		return err
	}
	if err := s.index.Retire(map[string]index.Numbers{id: q.ledger.Numbers()}); err != nil {
		return err
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	if err := s.strikeOut(id, func() error { return nil }); err != nil {
		return err
	}
	s.takeAway(q)
	return nil
}

// TakeOver makes this standby the owner. All that the owner before has acknowledged is
// applied then, and what it does after that fails. With atOnce the home is taken only from
// the owner known before: another batch ends the attempt with [ErrAlive]. So of several
// standbys none takes over from another one. Without, a busy owner may win until ctx ends.
func (s *Service) TakeOver(ctx context.Context, atOnce bool) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	claim := ctx
	if !atOnce { // a busy owner may go on for as long as ctx
		claim = context.WithoutCancel(ctx)
	}
	for {
		more, err := s.Advance(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if more && err == nil {
			if atOnce {
				return ErrAlive
			}
			continue
		}
		if err == nil {
			err = s.stored.TakeOver(claim)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bucket.ErrBehind) {
			return behind(err)
		}
	}
	for _, q := range s.Queues() {
		q.forgetDestructions()
		if err := q.findLeases(); err != nil {
			s.shared.Gate.Fail(err) // another process has to take over
			return fmt.Errorf("queue %s: leases: %w", q.ID(), err)
		}
		q.ledger.Wake()
		q.ledger.Welcome()
	}
	s.stored.Own()
	s.shared.Happened.Raise()
	return nil
}

// claim makes this process the owner of a home in a store, all of which it has read by now,
// unless another one has become the owner meanwhile.
func (s *Service) claim() error {
	for {
		claims, err := s.stored.Claims()
		if !claims || err != nil {
			return err
		}
		more, err := s.Advance(context.Background())
		if err == nil && !more {
			err = s.stored.Claim(context.Background())
		}
		if err != nil && !errors.Is(err, bucket.ErrBehind) {
			return err
		}
	}
}

// Claimed reports whether TakeOver has claimed the home and has failed then, as with a store
// that went away in between. No owner makes changes until TakeOver is called again.
func (s *Service) Claimed() bool { return s.stored.Claimed() }

// Leave makes the owner a standby: changes on their way are finished, and waiting
// consumers go without a job. Another process takes over, or this one again.
func (s *Service) Leave() error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.properties.Lock() // no change of the home is half done
	defer s.properties.Unlock()
	if err := s.stored.Leave(); err != nil {
		return ledger.StorageError(err)
	}
	for _, q := range s.Queues() {
		q.ledger.Dismiss()
	}
	return nil
}
