package queuefs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"cutie/queuefs/anvl"
)

// A queue made again under the name of one that was removed goes on with its
// job numbers: what was known under the reference of a job, in caches and in
// the notes of clients, never comes to mean another job. The last number of
// each queue that was removed is kept in log/index/former:
//
//	name of the queue: number
//	*: number, of all queues whose lines had to make room
const (
	formerFile = "former"
	formerRest = "*"
	maxFormer  = 10_000 // lines
)

// readFormer returns the lines of the file, oldest first. One that does not
// verify is reported, and there is none then.
func (s *Service) readFormer() (anvl.Record, error) {
	data, err := s.ixdir.ReadFile(formerFile, nil, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := unseal(data)
	if err != nil {
		s.report(Problem{Path: logDir + "/" + indexDir + "/" + formerFile, Text: err.Error() + "; which job numbers removed queues gave out is forgotten"})
		return nil, nil
	}
	return r, nil
}

// retire keeps the last number of a queue that is about to be removed, before
// it is. If it is not, the line does no harm.
func (s *Service) retire(q *Queue) error {
	q.mu.RLock()
	last := q.mint.job
	q.mu.RUnlock()
	r, err := s.readFormer()
	if err != nil || last <= lastOf(r, q.id) {
		return err
	}
	return s.ixdir.Replace(formerFile, sealed(retired(r, q.id, last)))
}

// retired returns the lines with that of a queue at their end.
func retired(r anvl.Record, id string, last JobID) anvl.Record {
	rest := lastOf(r, formerRest)
	r = slices.DeleteFunc(r, func(e anvl.Element) bool { return e.Name == id || e.Name == formerRest })
	for ; len(r) >= maxFormer; r = r[1:] {
		rest = max(rest, lastOf(r[:1], r[0].Name))
	}
	r.Add(id, strconv.FormatUint(uint64(last), 10))
	if rest > 0 {
		r.Add(formerRest, strconv.FormatUint(uint64(rest), 10))
	}
	return r
}

// former returns the last job number that a queue of the name may have given
// out before.
func (s *Service) former(id string) (JobID, error) {
	r, err := s.readFormer()
	return max(lastOf(r, id), lastOf(r, formerRest)), err
}

func lastOf(r anvl.Record, name string) JobID {
	for _, e := range r {
		if e.Name == name {
			n, err := strconv.ParseUint(e.Value, 10, 64)
			if err != nil || n > maxJobID {
				return 0
			}
			return JobID(n)
		}
	}
	return 0
}
