package queuefs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
)

// CheckOptions are the changes allowed to [Check].
type CheckOptions struct {
	Repair  bool             // mend damage where possible
	Rebuild bool             // forget the index and make it from the directories; make missing parts of the home
	Now     func() time.Time // nil means time.Now
	Segment int64            // as in Options
}

// A Report is the result of a check.
type Report struct {
	Queues, Jobs int
	Octets       int64     // of payloads read
	Mended       []Problem // found and dealt with
	Problems     []Problem // not mended
}

// Check opens the home in dir, which nobody else may have open, and compares
// the whole of it: each job has one job file, in the directory of its status,
// equal to the index, and a payload and results with their digests, and
// queue-info.txt makes sense. Even without Repair it does the same as opening a
// home: it replays the journal and takes in moves by hand. On a full disk it
// leaves out the jobs behind the journal.
func Check(dir string, o CheckOptions) (r Report, err error) {
	mended := func(p Problem) { r.Mended = append(r.Mended, p) }
	if o.Rebuild {
		if err := rebuild(dir, o, mended); err != nil {
			return r, err
		}
	}
	s, err := Open(dir, Options{Report: mended, Now: o.Now, Segment: o.Segment})
	if err != nil {
		return r, err
	}
	defer func() {
		if e := s.Close(); e != nil && (o.Repair || o.Rebuild || !errors.Is(e, ErrNoSpace)) {
			err = errors.Join(err, e)
		}
	}()
	if err := s.fileNow(); err != nil {
		return r, err
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.checkSettings(&r, o.Repair); err != nil {
			return r, fmt.Errorf("queue %s: %w", q.id, err)
		}
		if err := q.check(&r, o.Repair); err != nil {
			return r, fmt.Errorf("queue %s: %w", q.id, err)
		}
	}
	return r, nil
}

// fileNow brings all files up to the journal, as far as there is room.
func (s *Service) fileNow() error {
	at := s.log.Stats().Next
	err := s.makeRoom()
	for _, q := range s.Queues() {
		if err == nil {
			err = q.fileUpTo(at)
		}
	}
	if errors.Is(storageError(err), ErrNoSpace) {
		return nil
	}
	return err
}

// behindJobs returns the jobs with files behind the journal.
func (q *Queue) behindJobs() map[JobID]bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	ids := make(map[JobID]bool, len(q.backlog.dirty))
	for _, id := range q.backlog.dirty {
		ids[id] = true
	}
	return ids
}

// check compares a queue with its files, without the jobs behind the journal.
func (q *Queue) check(r *Report, repair bool) error {
	behind := q.behindJobs()
	if n := len(behind); n > 0 {
		r.Problems = append(r.Problems, Problem{Path: home.QueuesDir + "/" + q.id, Text: fmt.Sprintf("%v: the files of %d jobs are behind the journal, which has them, and were not compared", ErrNoSpace, n)})
	}
	where, err := q.list(func(JobID) bool { return true })
	if err != nil {
		return err
	}
	payloads, err := q.tree.PayloadFiles(func(name string) {
		r.Problems = append(r.Problems, Problem{Path: q.tree.Path(tree.Payloads, name), Text: "not the name of a job"})
	})
	if err != nil {
		return err
	}
	for n := range q.Pages() {
		entries, _, _ := q.Page(n, nil)
		for _, e := range entries {
			r.Jobs++
			st, there := where[e.Job], payloads[e.Job]
			delete(where, e.Job)
			delete(payloads, e.Job)
			if behind[e.Job] {
				continue
			}
			if err := q.checkJobFile(e, st, repair, r); err != nil {
				return err
			}
			if e, ok := q.Entry(e.Job); ok { // as it is now
				if err := q.checkPayload(e, there, repair, r); err != nil {
					return err
				}
			}
		}
	}
	for id := range behind {
		delete(where, id)
		delete(payloads, id)
	}
	if err := q.checkResults(behind, repair, r); err != nil {
		return err
	}
	for _, id := range sortedIDs(where) {
		r.Problems = append(r.Problems, Problem{Path: q.tree.Path(where[id].String(), id.String()), Text: "job file of a job the index does not know"})
	}
	for _, id := range sortedIDs(payloads) {
		r.Problems = append(r.Problems, Problem{Path: q.tree.Path(tree.Payloads, id.String()), Text: "payload without a job"})
	}
	return nil
}

func sortedIDs[V any](m map[JobID]V) []JobID {
	ids := make([]JobID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// checkJobFile compares the job file with the index. When repairing, a file
// that was edited and still parses is taken as it is; any other is set aside
// and written again.
func (q *Queue) checkJobFile(e Entry, st Status, repair bool, r *Report) error {
	path := q.tree.Path(e.Status.String(), e.Job.String())
	var why string
	var j Job
	var text []byte
	var err error
	if st != e.Status {
		why = "job file missing"
		if st != 0 {
			why = "job file is in " + st.String()
		}
	} else if j, text, err = q.readJob(e.Job, st); transient(err) {
		return err
	} else if err != nil {
		why = err.Error()
	} else if sha256.Sum256(text) != e.File.SHA256 {
		why = "job file was edited"
	} else if j.Status != st {
		why = "job file says " + j.Status.String()
	} else {
		return nil
	}
	if !repair {
		r.Problems = append(r.Problems, Problem{Path: path, Text: why})
		return nil
	}
	r.Mended = append(r.Mended, Problem{Path: path, Text: why + "; mended"})
	if st != 0 && st != e.Status {
		return q.takeMove(e.Job, e.Status, st)
	}
	if err != nil && st != 0 {
		if err := q.tree.SetAside(st, e.Job.String(), why); err != nil {
			return err
		}
	}
	if st == 0 || err != nil {
		v, _ := q.view(e.Job)
		j = q.restored(e.Job, &v)
	}
	return q.commit(func() ([]*record.Record, error) {
		k := j
		seq, us := q.next()
		k.Enter(e.Status)
		k.Seq, k.Size = seq, e.Payload.Length
		q.idx.SetFiled(e.Job, index.FiledUnknown)
		rec := q.recordOf(&k, Update, e.Status, us)
		rec.Payload.Submitted = e.Payload.Modified.UnixMicro()
		return []*record.Record{rec}, nil
	})
}
