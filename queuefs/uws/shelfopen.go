package uws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// openShelf reads what is staged for a queue, and settles what a crash left.
func openShelf(home *durable.Dir, q *queuefs.Queue) (*shelf, error) {
	s := &shelf{home: home, q: q, staged: map[string]stagedJob{}}
	d, err := s.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		s.listed = true
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	if err := d.staged.Names(func(name string) { names = append(names, name) }); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for _, name := range names {
		if err := s.take(d.staged, name); err != nil {
			return nil, errors.Join(fmt.Errorf("%s/%s/%s/%s: %w", rootDir, s.q.ID(), stagedDir, name, err), s.close())
		}
	}
	return s, nil
}

// take looks at one name of what is staged.
func (s *shelf) take(staged *durable.Dir, name string) error {
	id, isUpload := parseUpload(name)
	if of, n, isNote := parseNote(name); isNote {
		s.owe(of, n)
		return nil
	}
	switch {
	case strings.HasPrefix(name, durable.TempPrefix):
		return staged.Remove(name)
	case isUpload:
		if _, err := staged.Stat(id); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := staged.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	case isMade(name):
		err := s.settle(name)
		if strange := (*strangeError)(nil); errors.As(err, &strange) {
			return s.setStrange(staged, stagedDir, name, err)
		}
		return err
	}
	return nil
}

// settle takes a staged job up as a crash may have left it.
func (s *shelf) settle(id string) error {
	d := s.there()
	if _, err := d.jobs.Stat(id); err == nil {
		return s.unstage(id)
	}
	r, err := s.readFrom(d.staged, id)
	if err != nil {
		return err
	}
	if s.former(r) {
		return s.setFormer(d.staged, id)
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

// open returns the directories; if make is set they are made. Those of a queue
// that has gone are for nobody: the error is [queuefs.ErrNoQueue].
func (s *shelf) open(make bool) (d dirs, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return d, fmt.Errorf("%s: %w", s.q.ID(), queuefs.ErrNoQueue)
	}
	if !s.dirs.none() {
		return s.dirs, nil
	}
	sub := (*durable.Dir).Sub
	if make {
		sub = (*durable.Dir).MakeSub
	}
	root, err := sub(s.home, rootDir)
	if err != nil {
		return d, err
	}
	defer root.Close()
	dir, err := sub(root, s.q.ID())
	if err != nil {
		return d, err
	}
	defer dir.Close()
	// A crash may have come between the two.
	if d.staged, err = dir.MakeSub(stagedDir); err != nil {
		return dirs{}, err
	}
	if d.jobs, err = dir.MakeSub(jobsDir); err != nil {
		return dirs{}, errors.Join(err, d.staged.Close())
	}
	s.dirs = d
	return d, nil
}

// enter keeps the directories open until leave is called.
func (s *shelf) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *shelf) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.gone && s.users == 0 {
		_ = s.closeDirs() // what was written was synced
	}
}

// close lets nothing more be written, and closes the directories once nobody
// uses them.
func (s *shelf) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone = true; s.users > 0 {
		return nil
	}
	return s.closeDirs()
}

// closeDirs is for close and leave. s.mu is held.
func (s *shelf) closeDirs() error {
	d := s.dirs
	if s.dirs = (dirs{}); d.none() {
		return nil
	}
	return errors.Join(d.staged.Close(), d.jobs.Close())
}

// idle tells whether nobody uses the shelf.
func (s *shelf) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users == 0
}

// readAtOnce is how many records one call of readSome reads: a few tens of
// milliseconds.
const readAtOnce = 1000

// readSome finds out when the jobs with records are due, some at a call, as
// long as there are any that were not read since the start.
func (s *shelf) readSome(ctx context.Context) error {
	s.mu.Lock()
	listed, jobs := s.listed, s.dirs.jobs
	s.mu.Unlock()
	if jobs == nil {
		return nil
	}
	if !listed {
		var names []string
		if err := jobs.Names(func(name string) {
			if checkID(name) {
				names = append(names, name)
			}
		}); err != nil {
			return err
		}
		s.mu.Lock()
		s.unread, s.listed = names, true
		s.mu.Unlock()
	}
	for range readAtOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		n := len(s.unread)
		if n == 0 {
			s.unread = nil
			s.mu.Unlock()
			return nil
		}
		id := s.unread[n-1]
		s.mu.Unlock()
		if err := s.readOne(jobs, id); err != nil {
			return fmt.Errorf("%s/%s/%s/%s: %w", rootDir, s.q.ID(), jobsDir, id, err)
		}
		s.mu.Lock()
		s.unread = s.unread[:n-1]
		s.mu.Unlock()
	}
	return nil
}

func (s *shelf) readOne(jobs *durable.Dir, id string) error {
	defer s.lock(id)() // lest what is noted here be older than what is noted meanwhile
	r, err := s.readFrom(jobs, id)
	strange := (*strangeError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &strange):
		return s.setStrange(jobs, jobsDir, id, err)
	case err != nil:
		return err
	case s.former(r):
		return s.setFormer(jobs, id)
	}
	s.note(r, r.next(time.Time{}))
	return nil
}

// complete tells whether what is remembered of records is all there is.
func (s *shelf) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed && len(s.unread) == 0
}
