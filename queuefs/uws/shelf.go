package uws

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// rootDir is below the home, and has a directory for each queue.
const (
	rootDir      = "uws"
	stagedDir    = "staged"
	jobsDir      = "jobs"
	uploadSuffix = ".upload" // of the file that came with a staged job
)

// A shelf has the records of the jobs of one queue. Nothing is made on disk
// before there is a record.
type shelf struct {
	home   *durable.Dir
	q      *queuefs.Queue
	broken error          // it cannot be used
	locks  [64]sync.Mutex // of jobs, by identifier: held while a record is changed

	mu     sync.Mutex
	files  *durable.Dir // staged; nil: there is none
	jobs   *durable.Dir
	staged map[string]stagedJob
	due    dues
	read   bool // due knows of all records
}

// A stagedJob is what lists need of a staged job.
type stagedJob struct {
	created time.Time
	owner   string
}

var lockSeed = maphash.MakeSeed()

// lock keeps others from changing the record of a job.
func (s *shelf) lock(id string) (unlock func()) {
	l := &s.locks[maphash.String(lockSeed, id)%uint64(len(s.locks))]
	l.Lock()
	return l.Unlock
}

// openShelf reads what is staged for a queue, and settles what a crash left.
func openShelf(home *durable.Dir, q *queuefs.Queue) (*shelf, error) {
	s := &shelf{home: home, q: q, staged: map[string]stagedJob{}}
	if err := s.open(false); errors.Is(err, fs.ErrNotExist) {
		s.read = true
		return s, nil
	} else if err != nil {
		return nil, err
	}
	var names []string
	if err := s.files.Names(func(name string) { names = append(names, name) }); err != nil {
		return nil, err
	}
	for _, name := range names {
		id, isUpload := strings.CutSuffix(name, uploadSuffix)
		switch {
		case strings.HasPrefix(name, durable.TempPrefix):
			if err := s.files.Remove(name); err != nil {
				return nil, err
			}
		case isUpload && isMade(id):
			if _, err := s.files.Stat(id); errors.Is(err, fs.ErrNotExist) {
				if err := s.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
			}
		case isMade(name):
			if err := s.settle(name); err != nil {
				return nil, fmt.Errorf("%s/%s/%s/%s: %w", rootDir, s.q.ID(), stagedDir, name, err)
			}
		}
	}
	return s, nil
}

// settle takes a staged job up as a crash may have left it.
func (s *shelf) settle(id string) error {
	if _, err := s.jobs.Stat(id); err == nil {
		return s.unstage(id)
	}
	r, err := s.readFrom(s.files, id)
	if err != nil {
		return err
	}
	if s.former(r) {
		return s.unstage(id)
	}
	if r.from != 0 {
		for _, n := range s.q.IDs(queuefs.ListOptions{After: r.from - 1, Limit: 1 << 40}) {
			j, err := s.q.Job(n)
			if err != nil && !errors.Is(err, queuefs.ErrNoJob) {
				return err
			}
			if err == nil && j.Extra.Value(elemID) == id {
				r.job = n
				return s.started(r)
			}
		}
		r.from = 0
		if err := s.stage(r); err != nil {
			return err
		}
	}
	s.remember(r)
	return nil
}

// open opens the directories; if make is set they are made.
func (s *shelf) open(make bool) (err error) {
	if s.broken != nil {
		return s.broken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files != nil {
		return nil
	}
	sub := (*durable.Dir).Sub
	if make {
		sub = (*durable.Dir).MakeSub
	}
	root, err := sub(s.home, rootDir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := sub(root, s.q.ID())
	if err != nil {
		return err
	}
	defer dir.Close()
	// A crash may have come between the two.
	files, err := dir.MakeSub(stagedDir)
	if err != nil {
		return err
	}
	if s.jobs, err = dir.MakeSub(jobsDir); err != nil {
		return errors.Join(err, files.Close())
	}
	s.files = files
	return nil
}

// there returns the directories, nil if there are none.
func (s *shelf) there() (files, jobs *durable.Dir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files, s.jobs
}

func (s *shelf) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		return nil
	}
	err := errors.Join(s.files.Close(), s.jobs.Close())
	s.files, s.jobs = nil, nil
	return err
}

func (s *shelf) readFrom(dir *durable.Dir, id string) (*record, error) {
	text, err := dir.ReadFile(id, nil, maxRecord)
	if err != nil {
		return nil, err
	}
	return parseRecord(id, text)
}

// former tells whether a record is of a queue that had the name before.
func (s *shelf) former(r *record) bool { return r.created.Before(stamp(s.q.Info().Created)) }

// record returns the record of a job, nil if it has none.
func (s *shelf) record(id string) (*record, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	files, jobs := s.there()
	if files == nil {
		return nil, nil
	}
	// RUN moves the record to the second place, so that one look at each in
	// the wrong order might miss it.
	for _, dir := range []*durable.Dir{jobs, files, jobs} {
		r, err := s.readFrom(dir, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("record of %s: %w", id, err)
		}
		if s.former(r) {
			continue
		}
		return r, nil
	}
	return nil, nil
}

// stage puts the record of a job that is not in the queue on stable storage.
func (s *shelf) stage(r *record) error {
	if err := s.open(true); err != nil {
		return err
	}
	if err := s.files.Replace(r.id, r.text()); err != nil {
		return err
	}
	s.remember(r)
	return nil
}

func (s *shelf) remember(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged[r.id] = stagedJob{r.created, r.owner}
	if !r.destruction.IsZero() {
		s.due.add(r.destruction, r.id)
	}
}

// started puts the record of a job of the queue on stable storage, and lets go
// of what was staged of it. From there on the queue says what the job is.
func (s *shelf) started(r *record) error {
	r.from, r.params, r.upload = 0, nil, nil
	if err := s.keep(r); err != nil {
		return err
	}
	return s.unstage(r.id)
}

// keep puts the record of a job of the queue on stable storage.
func (s *shelf) keep(r *record) error {
	if err := s.open(true); err != nil {
		return err
	}
	if err := s.jobs.Replace(r.id, r.text()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due.add(r.next(time.Time{}), r.id)
	return nil
}

// unstage removes what is staged of a job; it may be called again.
func (s *shelf) unstage(id string) error {
	s.mu.Lock()
	delete(s.staged, id)
	s.mu.Unlock()
	// The record goes last: a file without one is removed at the next opening.
	for _, name := range []string{id + uploadSuffix, id} {
		if err := s.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.files.Sync()
}

// drop removes the record of a job of the queue.
func (s *shelf) drop(id string) error {
	_, jobs := s.there()
	if jobs == nil {
		return nil
	}
	if err := jobs.Remove(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list returns the staged jobs.
func (s *shelf) list() map[string]stagedJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]stagedJob, len(s.staged))
	for id, j := range s.staged {
		all[id] = j
	}
	return all
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.staged)
}

// readAll finds out when the jobs with records are due. It is called once,
// after the start, and reads a record for each.
func (s *shelf) readAll(ctx context.Context) error {
	_, jobs := s.there()
	s.mu.Lock()
	done := s.read
	s.mu.Unlock()
	if done || jobs == nil {
		return nil
	}
	var names []string
	if err := jobs.Names(func(name string) {
		if checkID(name) {
			names = append(names, name)
		}
	}); err != nil {
		return err
	}
	for _, id := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := s.readFrom(jobs, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s/%s/%s/%s: %w", rootDir, s.q.ID(), jobsDir, id, err)
		}
		if s.former(r) {
			if err := s.drop(id); err != nil {
				return err
			}
			continue
		}
		s.mu.Lock()
		s.due.add(r.next(time.Time{}), id)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.read = true
	s.mu.Unlock()
	return nil
}
