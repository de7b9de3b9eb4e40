package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
	"cutie/queuefs/imaging"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
)

// maxKeep is how many bytes of journal are kept for an absent follower.
const maxKeep = 1 << 30

// Checkpoint brings all files, the index, and the followers up to the journal
// and puts them on stable storage; then the journal up to there is released.
// Changes go on meanwhile.
func (s *Service) Checkpoint(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return s.checkpoint(allFiles)
}

// A reach says which files a checkpoint writes.
type reach int

const (
	allFiles reach = iota
	inTime         // as many as there is time for: the home closes
	noFiles        // none: an image has the jobs as well, and is due
)

func (s *Service) checkpoint(r reach) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	return s.checkpointLocked(r)
}

// checkpointLocked is checkpoint with upkeep held. On a full disk it gives up the
// reserve.
func (s *Service) checkpointLocked(r reach) error {
	err := s.tryCheckpoint(r)
	if errors.Is(err, ledger.ErrNoSpace) && !errors.Is(err, ledger.ErrFailed) && s.space.GiveUp() {
		err = s.tryCheckpoint(r)
	}
	return err
}

// tryCheckpoint follows these steps. A crash between any two of them leaves a home
// that opens to the same state, because the journal is released last. Without all files,
// as when the time of StopWithin is over, the checkpoint is one at the first record
// without files; pages, followers and an image are of the LSN all the same.
//
//	1 all files of jobs up to the LSN      4 commit changed rows of the index
//	2 the followers                        5 commit the checkpoint, with the last of them
//	3 sync the file system                 6 release the journal
func (s *Service) tryCheckpoint(r reach) error {
	if err := s.Err(); err != nil {
		return errors.Join(ledger.ErrFailed, err)
	}
	log, closing := s.shared.Journal.Stats(), r == inTime
	at, queues := log.Next, s.Queues()
	to, err := s.fileUpTo(at, queues, r)
	if err == nil && to < at && r == allFiles {
		err = ledger.ErrClosed
	}
	if err != nil {
		return ledger.StorageError(err)
	}
	if f := s.upkeep.follower; f != nil {
		if err := f.Flush(); err != nil {
			return ledger.StorageError(fmt.Errorf("follower: %w", err))
		}
	}
	s.stored.Syncing()
	if err := s.syncAll(); err != nil {
		return err
	}
	if err := s.stage(to, queues, closing); err != nil {
		return ledger.StorageError(err)
	}
	c := table.Checkpoint{Past: to, Clean: closing && to == at, Stopped: closing && to < at}
	if err := s.settle(&c, log.Held); err != nil {
		return ledger.StorageError(err)
	}
	if to == at {
		s.space.Checkpointed(log.Written)
		s.upkeep.last = s.opts.Now()
	}
	first := s.upkeep.keep
	switch {
	case s.stored == nil: // else an image has to come before
		err = s.shared.Journal.Release(first)
		first = s.shared.Journal.Stats().First
	case closing || s.Standby() || s.Coming():
	case s.stored.Images.Due(log, s.opts.Now()):
		s.makeImage(c, at, queues)
	default:
		err = s.stored.Images.Release(first)
	}
	if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrFailed) {
		s.shared.Gate.Fail(err) // nothing can be added any more
		err = ledger.StorageError(err)
	}
	for _, q := range queues {
		q.ledger.Note(func(x *index.Index) { x.History.Forget(first) })
	}
	return err
}

// makeImage begins an image of a home in a store up to the record at, right after a
// checkpoint, and goes on with it in the background. What is to be of the time of the
// checkpoint is copied here; jobs and published documents may be newer, as after a crash.
// The files here may be behind the image: the journal stays from their checkpoint c on.
// upkeep is held.
func (s *Service) makeImage(c table.Checkpoint, at journal.LSN, queues []*Queue) {
	images, of := s.stored.Images, c
	if of.Past = at; c.Keep == c.Past {
		of.Keep = at
	}
	b := images.Begin(of.Past, of.From(), s.opts.Now())
	if b == nil {
		return
	}
	all := imaged(queues)
	s.properties.Lock()
	err := imaging.Home(b, s.dirs.home, s.index, &of, all)
	s.properties.Unlock()
	if err != nil {
		images.Fail(b, err)
		return
	}
	fill := func(ctx context.Context) error {
		for _, q := range all {
			if err := imaging.Jobs(ctx, b, q); err != nil {
				return err
			}
		}
		return imaging.Published(ctx, b, s.dirs.home)
	}
	live := func(yield func(sum [32]byte)) error { return imaging.Live(imaged(s.Queues()), yield) }
	images.Go(b, c.From(), fill, func() error { return s.stored.Sweep(live) }, func(err error) {
		if errors.Is(err, journal.ErrFenced) {
			s.shared.Gate.Fail(err)
		}
	})
}

// imaged returns queues for an image.
func imaged(queues []*Queue) []imaging.Queue {
	all := make([]imaging.Queue, len(queues))
	for i, q := range queues {
		all[i] = imaging.Queue{Root: q.dir.Root(), Ledger: q.ledger, Reader: q.content}
		q.ledger.Look(func(x *index.Index) { all[i].Pages = x.Pages() })
	}
	return all
}

// syncAll puts all that was written on stable storage. After an error earlier writes are
// in doubt, and a second sync would not tell: until the machine restarts, all files are
// written again.
func (s *Service) syncAll() error {
	err := s.dirs.home.SyncFS()
	if err != nil {
		s.index.Doubt()
		s.shared.Gate.Fail(err)
		err = errors.Join(ledger.ErrFailed, err)
	}
	return err
}

// syncNew puts new queues on stable storage: their files, then their rows.
func (s *Service) syncNew() error {
	if err := s.syncAll(); err != nil {
		return err
	}
	return ledger.StorageError(s.index.Sync())
}

// fileUpTo writes the files up to the record at, unsynced, as far as r says, and
// stages tombstones. It returns up to where the files are.
func (s *Service) fileUpTo(at journal.LSN, queues []*Queue, r reach) (to journal.LSN, err error) {
	inTime := s.space.InTime
	if r == noFiles {
		inTime = func() bool { return false }
	} else if err := s.makeSpace(); err != nil {
		return 0, err
	}
	if err := s.retireStrays(); err != nil {
		return 0, err
	}
	to = at
	for _, q := range queues {
		q.ledger.Show(at)
		if r != noFiles {
			q.dropPacks(false)
			q.content.Packs.Unload() // nobody may be taking jobs any more
			if !s.space.Full() {
				q.writePacks(inTime)
			}
		}
		filed, err := q.dir.WriteUpTo(at, inTime)
		if err != nil {
			s.space.Tried(err)
			return 0, fmt.Errorf("queue %s: files: %w", q.ID(), err)
		}
		to = min(to, filed)
	}
	if r != noFiles {
		s.space.Tried(nil)
	}
	return to, nil
}

// stage stages the changed rows of the index.
func (s *Service) stage(at journal.LSN, queues []*Queue, closing bool) error {
	for _, q := range queues {
		var dirs func() ([4]int64, error)
		if closing {
			dirs = q.dir.Changed
		}
		err := q.tombstones.stage(s.tombstonesSince())
		if err == nil {
			err = s.index.Stage(q.ledger, at, dirs)
		}
		if err != nil {
			return fmt.Errorf("queue %s: index: %w", q.ID(), err)
		}
	}
	return nil
}

// settle makes the synced files the state to begin from. held is the storage of the
// journal in bytes.
func (s *Service) settle(c *table.Checkpoint, held int64) error {
	follower := s.upkeep.follower
	c.Keep = c.Past
	if follower != nil {
		if err := follower.Synced(); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
		c.Keep = min(c.Past, s.heldFor(follower))
	}
	if follower == nil && s.upkeep.keep != 0 && held <= maxKeep {
		c.Keep = min(max(s.upkeep.keep, s.shared.Journal.Stats().First), c.Past) // the owner of a standby has released its journal
	}
	c.Keep = s.keepForLost(c.Keep)
	if err := s.index.SetCheckpoint(c); err != nil {
		return err
	}
	if err := s.stored.Synced(); err != nil {
		return err
	}
	for _, q := range s.Queues() {
		q.tombstones.committed()
	}
	if err := s.index.Trust(); err != nil {
		return err
	}
	s.upkeep.keep, s.upkeep.past = c.Keep, c.Past
	return nil
}

// keepLog is how many bytes of journal are kept for followers by default. A start reads them
// all.
const keepLog = 256 << 20

// heldFor returns the first record that a follower wants again. The oldest ones are not kept
// for it once the journal has grown too large. Nothing is kept on a full disk, nor for a home
// that moves into a store: its journal stays behind.
func (s *Service) heldFor(follower Follower) journal.LSN {
	log := s.shared.Journal.Stats()
	h, ok := follower.(Holder)
	if !ok || s.push != nil || s.space.Full() || s.opts.KeepLog < 0 {
		return log.Next
	}
	first := log.Next
	for _, q := range s.Queues() {
		seq := h.Holds(q.ID())
		if seq == 0 {
			continue
		}
		q.ledger.Look(func(x *index.Index) {
			if at, ok := x.History.From(seq); ok {
				first = min(first, at)
			}
		})
	}
	if log.Held > s.mostKept() {
		first = max(first, log.First+(log.Next-log.First)/4)
	}
	return first
}

func (s *Service) mostKept() int64 { return max(0, cmp.Or(s.opts.KeepLog, keepLog)) }

// Kept returns how much of Options.KeepLog the journal from an event on takes: from 1 on its
// records may be let go of before a [Holder] has read them.
func (q *Queue) Kept(from job.Seq) float64 {
	var at journal.LSN
	var ok bool
	q.ledger.Look(func(x *index.Index) { at, ok = x.History.From(from) })
	log, keep := q.svc.shared.Journal.Stats(), q.svc.mostKept()
	if !ok || at < log.First || keep == 0 {
		return 1
	}
	return float64(log.Held) / float64(keep) * float64(log.Next-at) / float64(log.Next-log.First)
}

// tombstonesSince returns the time of the oldest tombstones to keep.
func (s *Service) tombstonesSince() time.Time {
	hours := cmp.Or(s.Info().TombstoneAge, 90*24)
	return s.opts.Now().Add(-time.Duration(hours) * time.Hour)
}

// makeSpace removes the files of all culled jobs that have some, and on a full disk
// what is there only to be quick: packs, and segments of the journal to be used again.
func (s *Service) makeSpace() error {
	if s.space.Full() {
		if err := s.shed(); err != nil {
			return err
		}
	}
	for _, q := range s.Queues() {
		if err := q.dir.RemoveCulled(s.space.InTime); err != nil {
			return fmt.Errorf("queue %s: files: %w", q.ID(), err)
		}
	}
	return nil
}

func (s *Service) shed() error {
	for _, q := range s.Queues() {
		q.dropPacks(true)
	}
	return s.shared.Journal.Trim()
}

// retireStrays keeps the last numbers of queues in the journal that queues.txt does not
// list. No journal is released before it has succeeded. The caller holds upkeep, or
// opens the home.
func (s *Service) retireStrays() error {
	s.known.mu.RLock()
	strays := s.known.strays
	s.known.mu.RUnlock()
	if err := s.index.Retire(strays); err != nil {
		return err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.known.strays = nil
	return nil
}

// Follow sets the followers of the service; they are called in turn. Call it
// before anything changes. Without any, or with nil, there is none.
func (s *Service) Follow(all ...Follower) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.upkeep.follower = nil
	if all = slices.DeleteFunc(slices.Clone(all), func(f Follower) bool { return f == nil }); len(all) > 0 {
		s.upkeep.follower = followers(all)
	}
}

// Maintain does the upkeep that is due: it brings files up to the journal and
// checkpoints. Call it a few times a second. Errors mean that something could
// not be written; it is tried again at the next call. As long as there is no
// free space the error is [ledger.ErrNoSpace] in the same words, whichever file it was. After
// [ErrBehind] a standby must be opened again, and so must an owner that was one.
func (s *Service) Maintain(ctx context.Context) error {
	err := s.maintain(ctx)
	if s.stored != nil && errors.Is(err, journal.ErrReleased) {
		// The image of the owner, or of the one before, has these jobs. A directory without
		// a checkpoint since a takeover is made again.
		err = behind(err)
		s.shared.Gate.Fail(err)
		return err
	}
	var why syscall.Errno
	if errors.Is(err, ledger.ErrNoSpace) && !errors.Is(err, ledger.ErrFailed) && errors.As(err, &why) {
		return fmt.Errorf("%w: files and index are behind the journal: %w", ledger.ErrNoSpace, why)
	}
	return err
}

func (s *Service) maintain(ctx context.Context) (err error) {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	due, image, calm, written := s.due()
	defer func() {
		if image && err != nil {
			s.stored.Images.Later(s.opts.Now())
		}
	}()
	if image && s.shared.Behind.Load() > soonFiled && s.space.InTime() && !s.space.Full() {
		err := s.checkpoint(noFiles) // the files may take long
		if !errors.Is(err, ledger.ErrNoSpace) {
			return err
		}
	}
	switch {
	case !s.space.InTime():
	case due || image:
		return s.checkpoint(allFiles)
	case calm || s.space.Full():
		return s.fileAll(ctx, func() bool { return s.shared.Journal.Stats().Written <= written+calmRate/4 })
	}
	return nil
}

// soonFiled is for how many jobs an image waits until their files are written: a start of
// this directory has less of the journal to read then.
const soonFiled = 5_000

// due is [diskSpace.Due]. An image needs a checkpoint, too.
func (s *Service) due() (due, image, calm bool, written int64) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	due, calm, written = s.space.Due(s.opts.Now(), s.upkeep.last)
	image = s.stored != nil && !s.Standby() && !s.Coming() && s.stored.Images.Due(s.shared.Journal.Stats(), s.opts.Now())
	return due, image, calm, written
}

// fileAll brings the files of all jobs that are behind now up to the journal,
// as long as there is time.
func (s *Service) fileAll(ctx context.Context, inTime func() bool) error {
	if s.space.Full() {
		if err := s.makeSpace(); err != nil {
			return ledger.StorageError(err)
		}
	}
	for _, q := range s.of(s.shared.Unfiled()) {
		if !s.space.Full() {
			q.writePacks(inTime)
		}
		if err := q.dir.WriteMany(func() bool { return ctx.Err() == nil && inTime() }); err != nil {
			s.space.Tried(err)
			return ledger.StorageError(err)
		}
		if err := ctx.Err(); err != nil || !inTime() {
			return err
		}
	}
	s.space.Tried(nil)
	return nil
}

// spool makes a temporary file for a large payload, with the same check as it
// grows.
func (s *Service) spool() (*durable.Spool, error) {
	f, err := s.dirs.temp.Spool()
	if err != nil {
		return nil, err
	}
	f.Reserve = func(bytes int64) error { return s.makeFit(0, bytes) }
	return f, nil
}

// relieve makes space for the journal by a checkpoint, which releases old segments. It
// reports whether to try again. It never waits for another checkpoint. The caller may hold
// properties, as an image does: but a journal in a store never lacks space.
func (s *Service) relieve() bool {
	if s.space.Behind() <= 0 || !s.upkeep.TryLock() {
		return false
	}
	defer s.upkeep.Unlock()
	return s.checkpointLocked(allFiles) == nil || s.space.GiveUp()
}

// bringers is how many pages are brought at once.
const bringers = 4

// Bring brings the files of jobs into the directory that a home in a store has made again,
// until all are there, ctx ends, or the store cannot be read. Jobs are served meanwhile. It
// returns why the last image was not made, too. Without a store it does nothing.
func (s *Service) Bring(ctx context.Context) error {
	if s.stored == nil {
		return nil
	}
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(bringers)
	for queue, n := range s.stored.Absent.All() {
		if all.Err() != nil || s.usable() != nil {
			break
		}
		q := s.open(queue)
		if q == nil {
			s.stored.Absent.Brought(queue, n) // it was removed
			continue
		}
		g.Go(func() error {
			_, err := q.content.Far.Page(job.ID(n) * index.PageJobs)
			return err
		})
	}
	err := g.Wait()
	if err == nil && ctx.Err() == nil {
		err = s.sweepFormer(ctx)
	}
	return errors.Join(err, s.stored.Images.Err())
}

// sweepFormer removes the files that the directory had before it was made again, once a
// checkpoint has put the new ones on stable storage.
func (s *Service) sweepFormer(ctx context.Context) error {
	if !s.stored.Former() || s.Coming() || s.usable() != nil {
		return nil
	}
	if err := s.Checkpoint(ctx); err != nil {
		return err
	}
	return s.stored.SweepFormer()
}

// Image makes an image of a home in a store now, and waits for it.
func (s *Service) Image(ctx context.Context) error {
	if s.stored == nil {
		return errUnstored
	}
	if err := s.Published(); err != nil {
		return err
	}
	return s.stored.Images.Now(ctx, func() error { return s.Checkpoint(ctx) })
}

// Push moves the home from the directory into the store of [Options.PushTo]: an image of
// all there is, and a journal that goes on after it. Then the directory is a cache. Close
// the service after it, whatever the error; a later Push goes on. Followers are set and up
// to date, and nothing changes meanwhile.
func (s *Service) Push(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	queues := s.Queues()
	if lost := s.Lost(); len(lost) > 0 {
		return &lost[0]
	}
	for _, q := range queues {
		if q.Mirror().Live() {
			return fmt.Errorf("queue %s is a mirror: the first copy of a mirror is in no journal", q.ID())
		}
		if err := q.Shut(); err != nil {
			return err
		}
	}
	if err := s.checkpointLocked(allFiles); err != nil {
		return err
	}
	at := s.upkeep.past
	if s.upkeep.keep != at {
		return errors.New("a follower needs the journal before the image")
	}
	b := s.push.Begin(at, s.opts.Now())
	defer b.Close()
	s.properties.Lock()
	err := imaging.Home(b, s.dirs.home, s.index, nil, imaged(queues))
	s.properties.Unlock()
	if err != nil {
		return err
	}
	for _, q := range imaged(queues) {
		if err := imaging.Jobs(ctx, b, q); err != nil {
			return err
		}
		if err := imaging.Put(ctx, q, s.push.File); err != nil {
			return err
		}
	}
	if err := imaging.Published(ctx, b, s.dirs.home); err != nil {
		return err
	}
	if next := s.shared.Journal.Stats().Next; next != at {
		return fmt.Errorf("the home has changed while it was copied: the journal goes to %d, and the image to %d", next, at)
	}
	return s.push.Finish(ctx, b, at)
}

// MoveHere brings all of a home in a store into the directory, and has Close move it there.
// where names the directory for people. A home of another owner is not moved. After an
// error the home is in the store as before, and the directory is its cache.
func (s *Service) MoveHere(ctx context.Context, where string) error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	if s.stored == nil {
		return errUnstored
	}
	if err := s.Bring(ctx); err != nil {
		return err
	}
	for _, q := range imaged(s.Queues()) {
		if err := imaging.Bring(ctx, q); err != nil {
			return err
		}
	}
	return s.stored.MoveHere(where)
}
