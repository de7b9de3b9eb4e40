package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
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
	return s.checkpoint(false)
}

// checkpoint follows these steps. A crash between any two of them leaves a home
// that opens to the same state, because the journal is released last.
//
//	1 all files of jobs up to the mark     4 sync the file system
//	2 the followers                        5 put index pages under their names, sync
//	3 changed index pages, staged          6 the checkpoint file; then release
func (s *Service) checkpoint(closing bool) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	return s.checkpointLocked(closing)
}

// catchUp checkpoints if the files are still too far behind when the turn
// comes.
func (s *Service) catchUp() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if !s.tooFar() {
		return nil
	}
	return s.checkpointLocked(false)
}

func (s *Service) checkpointLocked(closing bool) error {
	err := s.tryCheckpoint(closing)
	if errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrFailed) && s.giveUp() {
		err = s.tryCheckpoint(closing)
	}
	return err
}

func (s *Service) tryCheckpoint(closing bool) error {
	if err := s.Err(); err != nil {
		return errors.Join(ErrFailed, err)
	}
	if err := s.makeRoom(); err != nil {
		return storageError(err)
	}
	if len(s.strays) > 0 {
		if err := s.retireStrays(); err != nil {
			return storageError(err)
		}
	}
	log := s.log.Stats()
	mark := log.Next
	queues := s.Queues()
	for _, q := range queues {
		q.show(mark)
		q.dropPacks(false)
		q.packs.unload(0, 0) // nobody may be taking jobs any more
		q.pack(func() bool { return true })
		if err := q.fileUpTo(mark); err != nil {
			s.full.Store(errors.Is(storageError(err), ErrNoSpace))
			return storageError(fmt.Errorf("queue %s: files: %w", q.id, err))
		}
	}
	s.full.Store(false)
	for _, q := range queues {
		if err := q.fileTombstones(); err != nil {
			return storageError(fmt.Errorf("queue %s: tombstones: %w", q.id, err))
		}
	}
	if s.follower != nil {
		if err := s.follower.Flush(); err != nil {
			return storageError(fmt.Errorf("follower: %w", err))
		}
	}
	var staged []*stagedPages
	for _, q := range queues {
		st, err := q.stage(mark, closing)
		if st != nil {
			defer st.end()
			staged = append(staged, st)
		}
		if err != nil {
			return storageError(fmt.Errorf("queue %s: index: %w", q.id, err))
		}
	}
	if err := s.home.SyncFS(); err != nil {
		// Earlier writes are in doubt, and a second sync would not tell. The
		// cache may go on showing them, and the note of the doubt as well,
		// until the machine restarts. Until then all files are written again.
		_ = s.ixdir.Put(indexfile.DoubtName, nil)
		s.fail(err)
		return errors.Join(ErrFailed, err)
	}
	for i := range staged {
		if err := staged[i].place(); err != nil {
			return storageError(err)
		}
	}
	if s.follower != nil {
		if err := s.follower.Synced(); err != nil {
			return storageError(fmt.Errorf("follower: %w", err))
		}
	}
	keep := mark
	if s.follower == nil && s.keep != 0 && log.Held <= maxKeep {
		keep = s.keep
	}
	c := indexfile.Checkpoint{Past: mark, Keep: keep, Clean: closing}
	if err := indexfile.CheckpointIn(s.ixdir).Write(c.Text()); err != nil {
		return storageError(err)
	}
	for i := range staged {
		staged[i].kept = true
	}
	if s.doubt.Load() {
		if err := s.ixdir.Remove(indexfile.DoubtName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storageError(err)
		}
		s.doubt.Store(false)
	}
	s.keep, s.past = keep, mark
	s.lastMark.Store(log.Written)
	s.found.Store(0)
	s.lastTime = s.opts.Now()
	err := s.log.Release(keep)
	first := s.log.Stats().First
	for _, q := range queues {
		q.forget(first)
	}
	return err
}

// fileUpTo brings the files up to the record at of the journal.
func (q *Queue) fileUpTo(at journal.LSN) error {
	for range readTries {
		q.tree.Settle()
		if err := q.fileMany(func() bool { return true }); err != nil {
			return err
		}
		q.tree.Settle()
		if !q.behind(at) {
			return nil
		}
	}
	return errors.New("files do not catch up")
}

// behind tells whether the files of some job lack an event before at.
func (q *Queue) behind(at journal.LSN) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.BehindOf(at)
}

// forget drops the places of events before the record first.
func (q *Queue) forget(first journal.LSN) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idx.History.Forget(first)
}

// stagedPages are index files under temporary names.
type stagedPages struct {
	q     *Queue
	dir   *durable.Dir
	names [][2]string // temporary name, name
	pages []int
	kept  bool // their checkpoint has come to its end
}

// stage writes the changed pages of the queue, and its queue file, under
// temporary names. Without changes it returns nil. End the result, also after
// an error.
func (q *Queue) stage(at journal.LSN, closing bool) (st *stagedPages, err error) {
	q.mu.RLock()
	touched := q.idx.Changed
	q.mu.RUnlock()
	if !touched && !closing {
		return nil, nil
	}
	dir, err := q.indexDir()
	if err != nil {
		return nil, err
	}
	st = &stagedPages{q: q, dir: dir}
	var buf []byte
	for n := 0; ; n++ {
		q.mu.Lock()
		if n == 0 {
			q.idx.Changed = false
		}
		if n >= q.idx.Pages() {
			q.mu.Unlock()
			break
		}
		var changed bool
		buf, changed = q.idx.AppendPage(buf[:0], n)
		q.mu.Unlock()
		if !changed {
			continue
		}
		st.pages = append(st.pages, n)
		if err := st.add(index.PageName(n), buf); err != nil {
			return st, err
		}
	}
	q.mu.RLock()
	x := q.indexed(at)
	x.Pages, _ = q.idx.Held()
	q.mu.RUnlock()
	if closing {
		if x.Dirs, err = q.tree.Changed(); err != nil {
			return st, err
		}
	}
	tmp, err := indexfile.QueueIn(st.dir, q.id).Stage(x.Text())
	if err == nil {
		st.names = append(st.names, [2]string{tmp, indexfile.QueueName})
	}
	return st, err
}

// indexed returns the contents of the file for the queue; q.mu is held.
func (q *Queue) indexed(at journal.LSN) indexfile.Queue {
	x := indexfile.Queue{Last: q.idx.Last(), Submitted: q.idx.LastSubmit, Consumed: q.idx.LastConsume,
		Created: q.set.info.Created.UnixMicro(), Types: q.idx.MediaTypes(), Info: q.set.announced, At: at, Since: q.life.since, Before: q.life.before}
	if !q.set.made {
		x.Settings = q.set.Text
	}
	return x
}

// indexDir opens the directory of the index pages of the queue, to be closed.
func (q *Queue) indexDir() (*durable.Dir, error) {
	sub, err := q.svc.ixdir.MakeSub(home.QueuesDir)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return sub.MakeSub(q.id)
}

func (st *stagedPages) add(name string, data []byte) error {
	tmp, err := st.dir.Stage(name, data)
	if err == nil {
		st.names = append(st.names, [2]string{tmp, name})
	}
	return err
}

// place puts the files under their names, the queue file first: a crash may
// leave it newer than the pages, but never without a media type they speak of.
func (st *stagedPages) place() error {
	for _, n := range slices.Backward(st.names) {
		if err := st.dir.Rename(n[0], st.dir, n[1]); err != nil {
			return err
		}
	}
	return st.dir.Sync()
}

// end closes the directory. Unless the checkpoint has come to its end it
// removes the staged files and marks the pages as changed again.
func (st *stagedPages) end() {
	defer st.dir.Close()
	if st.kept {
		return
	}
	for _, n := range st.names {
		if err := st.dir.Remove(n[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			st.q.svc.report(Problem{Path: home.LogDir + "/" + home.IndexDir + "/" + n[0], Text: err.Error()})
		}
	}
	st.q.mu.Lock()
	defer st.q.mu.Unlock()
	for _, n := range st.pages {
		st.q.idx.SetPageChanged(n)
	}
	st.q.idx.Changed = true
}
