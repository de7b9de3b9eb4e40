package queuefs

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

// A queue made again under the name of a removed queue goes on with its job
// numbers and event numbers. So the reference of a job, or the name of a
// document that ends with an event, never comes to mean another in the caches
// and notes of clients. The queue file of the index stays for this when the
// queue goes.

// numbers returns the last numbers of the queue.
func (q *Queue) numbers() index.Numbers {
	q.mu.RLock()
	defer q.mu.RUnlock()
	n := q.idx.Minted()
	return index.Numbers{Job: n.Job, Seq: n.Seq}
}

// former returns the last numbers a queue of the name can have given out
// before, as far as the index knows.
func (s *Service) former(id string) (last index.Numbers, err error) {
	dir, err := s.formerDir(id)
	if err == nil {
		last, err = s.indexedNumbers(dir, id)
		dir.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return last, err
	}
	old, err := s.oldFormer(id)
	return last.Max(old), err
}

// formerDir opens the directory of a queue in the index. The error wraps
// [fs.ErrNotExist] if there is none.
func (s *Service) formerDir(id string) (*durable.Dir, error) {
	all, err := s.ixdir.Sub(home.QueuesDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return all.Sub(id)
}

// indexedNumbers returns the highest numbers in the files of an index. Without
// a queue file that verifies, all numbers of a page count as given out.
func (s *Service) indexedNumbers(dir *durable.Dir, queue string) (last index.Numbers, err error) {
	x, err := indexfile.ReadQueue(dir, queue)
	switch {
	case err == nil:
		return index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}, nil
	case errors.Is(err, durable.ErrDamaged):
		if last, err = s.salvage(dir, indexfile.QueueName, err); err != nil {
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
		last.Job = max(last.Job, min(JobID(n+1)*PageJobs-1, job.MaxID))
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil {
			return last, err
		}
		if version, err := index.PageVersion(buf, queue, n); err == nil {
			last.Seq = max(last.Seq, version)
		}
	}
	return last, nil
}

// salvage returns the highest numbers in the lines of a damaged file, and those
// of all open queues: any line can be wrong or missing. A number that leaves
// few after it is not believed.
func (s *Service) salvage(dir *durable.Dir, name string, why error) (last index.Numbers, err error) {
	data, err := dir.ReadFile(name, nil, 64<<20)
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return last, err
	}
	last = indexfile.Salvage(data)
	for _, q := range s.Queues() {
		last = last.Max(q.numbers())
	}
	s.report(Problem{Path: strings.TrimPrefix(dir.Path(), s.home.Path()+"/") + "/" + name,
		Text: fmt.Sprintf("%v; numbers of jobs and events go on above %d and %d, the highest that can be read", why, last.Job, last.Seq)})
	return last, nil
}

// retire keeps the last numbers of queues found gone.
func (s *Service) retire(last map[string]index.Numbers) error {
	for _, id := range slices.Sorted(maps.Keys(last)) {
		was, err := s.former(id)
		if err != nil {
			return err
		}
		if was.Max(last[id]) == was {
			continue
		}
		if err := s.keepNumbers(id, was.Max(last[id])); err != nil {
			return err
		}
	}
	return nil
}

// keepNumbers writes a queue file of nothing but the last numbers of a queue.
func (s *Service) keepNumbers(id string, last index.Numbers) error {
	all, err := s.ixdir.MakeSub(home.QueuesDir)
	if err != nil {
		return err
	}
	defer all.Close()
	dir, err := all.MakeSub(id)
	if err != nil {
		return err
	}
	defer dir.Close()
	x := indexfile.Queue{Last: last, Types: []string{""}, Bare: true}
	return indexfile.QueueIn(dir, id).Write(x.Text())
}

// forgetIndex removes the index of a queue, except for its last numbers.
func (s *Service) forgetIndex(id string) error {
	dir, err := s.formerDir(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	last, err := s.indexedNumbers(dir, id)
	if err == nil {
		err = s.keepNumbers(id, last)
	}
	if err != nil {
		return err
	}
	var gone []string
	if err := dir.Names(func(name string) { gone = append(gone, name) }); err != nil {
		return err
	}
	for _, name := range gone {
		if name != indexfile.QueueName {
			if err := dir.RemoveTree(name); err != nil {
				return err
			}
		}
	}
	return dir.Sync()
}

// hasFormer tells whether there was a queue of the name, which is not open.
func (s *Service) hasFormer(id string) (bool, error) {
	s.mu.RLock()
	_, stray := s.strays[id]
	open := s.byID[id] != nil
	s.mu.RUnlock()
	if stray || open {
		return stray && !open, nil
	}
	dir, err := s.formerDir(id)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err = s.home.Sub(home.PublishedDir); err == nil {
			_, err = dir.Stat(id)
			dir.Close()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if err == nil {
		dir.Close()
	}
	return err == nil, err
}

// forgetFormer forgets all but the last numbers of a former queue, if there was
// one. Then the caller holds upkeep.
func (s *Service) forgetFormer(id string) error {
	former, err := s.hasFormer(id)
	if err != nil || !former {
		return err
	}
	if last, stray := s.strays[id]; stray {
		if err := s.retire(map[string]index.Numbers{id: last}); err != nil {
			return err
		}
	}
	return s.forget(id)
}

// retireStrays is retire for queues in the journal that queues.txt does not
// list. No journal is released before it has succeeded.
func (s *Service) retireStrays() error {
	if err := s.retire(s.strays); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = nil
	return nil
}

// oldFormer returns the last numbers of a queue by the file log/index/former of
// older homes; nobody writes it any more.
func (s *Service) oldFormer(id string) (last index.Numbers, err error) {
	const name = "former"
	data, err := s.ixdir.ReadFile(name, nil, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err == nil {
		last, err = indexfile.ParseFormer(data, id)
	}
	if err != nil {
		return s.salvage(s.ixdir, name, err)
	}
	return last, nil
}
