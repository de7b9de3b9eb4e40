package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
)

// Numbers returns the last numbers a queue of the name can have given out before, as far
// as the index knows. Where it has no sound file of the queue, they are at least those that
// published documents name.
func (s *Store) Numbers(id string) (last index.Numbers, err error) {
	x, _, ok, err := s.entry(id)
	switch {
	case errors.Is(err, durable.ErrDamaged):
		last = s.Highest()
		s.Report(smallPath, fmt.Sprintf("%v; numbers of jobs and events go on above %d and %d, the highest there are", err, last.Job, last.Seq))
	case err != nil:
		return last, err
	case ok:
		last = index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}
	}
	s.mu.Lock()
	last = last.Max(s.floor)
	s.mu.Unlock()
	if s.File(id).err != nil {
		of, err := s.published(id)
		if err != nil {
			return last, err
		}
		last = last.Max(of)
	}
	if s.HasDir(id) {
		dir, err := s.existing(id)
		if err != nil {
			return last, err
		}
		defer dir.Close()
		of, err := s.numbersIn(dir, id)
		if err != nil {
			return last, err
		}
		last = last.Max(of)
	}
	return last, nil
}

// published returns the last numbers that published documents name. Each job number was
// given out by an event of its own, so there are no more of them.
func (s *Store) published(id string) (last index.Numbers, err error) {
	if s.Published == nil || id == floorName {
		return last, nil
	}
	seq, err := s.Published(id)
	return index.Numbers{Job: min(job.ID(seq), job.MaxID), Seq: seq}, err
}

// numbersIn returns the highest numbers in the files of an index. Without a queue file
// that verifies, all numbers of a page count as given out.
func (s *Store) numbersIn(dir *durable.Dir, queue string) (last index.Numbers, err error) {
	x, err := indexfile.ReadQueue(dir, queue)
	switch {
	case err == nil:
		return index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}, nil
	case errors.Is(err, durable.ErrDamaged):
		if last, err = s.salvage(dir, Path(queue, indexfile.QueueName), err); err != nil {
			return last, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return last, err
	}
	pages, err := pageNumbers(dir)
	if err != nil {
		return last, err
	}
	var buf []byte
	for _, n := range pages {
		last.Job = max(last.Job, min(job.ID(n+1)*index.PageJobs-1, job.MaxID))
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil {
			return last, err
		}
		if version, err := index.PageVersion(buf, queue, n); err == nil {
			last.Seq = max(last.Seq, version)
		}
	}
	return last, nil
}

// salvage returns the highest numbers in the lines of a damaged file, and those of all
// open queues: any line can be wrong or missing. A number that leaves few after it is
// not believed.
func (s *Store) salvage(dir *durable.Dir, path string, why error) (last index.Numbers, err error) {
	data, err := dir.ReadFile(path[strings.LastIndexByte(path, '/')+1:], nil, 64<<20)
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return last, err
	}
	last = indexfile.Salvage(data).Max(s.Highest())
	s.Report(path, fmt.Sprintf("%v; numbers of jobs and events go on above %d and %d, the highest that can be read", why, last.Job, last.Seq))
	return last, nil
}

// Retire keeps the last numbers of queues found gone.
func (s *Store) Retire(last map[string]index.Numbers) error {
	for _, id := range slices.Sorted(maps.Keys(last)) {
		was, err := s.Numbers(id)
		if err != nil {
			return err
		}
		if was.Max(last[id]) == was {
			continue
		}
		if err := s.keep(id, was.Max(last[id])); err != nil {
			return err
		}
	}
	return nil
}

// Reset keeps other last numbers of a queue, even if they are lower.
func (s *Store) Reset(id string, last index.Numbers) error { return s.keep(id, last) }

// keep adds an entry of nothing but the last numbers of a queue.
func (s *Store) keep(id string, last index.Numbers) error {
	x := indexfile.Queue{Last: last, Types: []string{""}, Bare: true}
	return s.put(id, &x, nil)
}

// Forget removes the index of a queue, except for its last numbers.
func (s *Store) Forget(id string) error {
	known := s.Has(id)
	last, err := s.Numbers(id)
	if err == nil && !known && last == (index.Numbers{}) {
		return nil
	}
	if err == nil {
		err = s.keep(id, last)
	}
	if err != nil || s.Own {
		return err
	}
	return s.forgetDir(id)
}

// forgetDir removes the directory of a queue, after the entry with its last numbers is on
// stable storage.
func (s *Store) forgetDir(id string) error {
	if !s.HasDir(id) {
		return nil
	}
	if err := s.small.Sync(); err != nil {
		return err
	}
	all, err := s.Dir.Sub(home.QueuesDir)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := s.removeDir(all, id); err != nil {
		return err
	}
	return all.Sync()
}
