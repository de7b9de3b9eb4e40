package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/record"
	"cutie/queuefs/tree"
)

// Results get their names after the journal, as large payloads do: a record names
// the temporary file, synced before. So a crash leaves no unknown result, and a
// job back in pending keeps none of a former attempt.

// followResults notes the demands of the record on the results of its job; had
// reports whether there may be files. q.mu is held.
func (q *Queue) followResults(r *record.Record, had bool) {
	w, waits := q.backlog.results[r.Job]
	switch {
	case r.Flags&record.Result != 0:
		temp, name, _ := strings.Cut(r.Temp, "/")
		w.Add(tree.Placed{Temp: temp, Name: name})
	case r.Flags&record.Results == 0 && (had || waits && len(w.Placed()) > 0):
		w.Wipe()
	default:
		return
	}
	if q.backlog.results == nil {
		q.backlog.results = map[JobID]tree.ResultBacklog{}
	}
	q.backlog.results[r.Job] = w
}

// fileResults brings the results of a job up to the journal. It may be called
// again after any of its steps, and after a crash from the start.
func (q *Queue) fileResults(id JobID) error {
	q.mu.RLock()
	w, ok := q.backlog.results[id]
	q.mu.RUnlock()
	if !ok {
		return nil
	}
	if err := q.tree.WriteResults(id, w.Work()); err != nil {
		return fmt.Errorf("results of %v: %w", id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.backlog.results[id]
	if n.Done(w) {
		q.backlog.results[id] = n
	} else {
		delete(q.backlog.results, id)
	}
	return nil
}

// foundResults makes the results of a job without a job file from their files.
func (q *Queue) foundResults(id JobID) (found []Result) {
	placed := q.unplaced(id)
	q.tree.ResultNames(id, func(name string) {
		if CheckResultName(name) != nil || len(found) == MaxResults {
			return
		}
		r := Result{Name: name}
		var err error
		if r.Size, r.SHA256, err = q.tree.SumResult(id, name, placed); err == nil {
			found = append(found, r)
		}
	})
	slices.SortFunc(found, func(a, b Result) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// restored is a job made from memory, without its job file.
func (q *Queue) restored(id JobID, v *view) Job {
	j := v.Restored(id)
	if v.Results {
		j.Results = q.foundResults(id)
	}
	return j
}

// checkResults compares the results of a queue with the job files, except for jobs
// behind the journal. Repairing moves unknown and damaged results to corrupt/.
func (q *Queue) checkResults(behind map[JobID]bool, repair bool, r *Report) error {
	seen, err := q.tree.ResultDirs(func(name string) {
		r.Problems = append(r.Problems, Problem{Path: q.tree.Path(tree.Results, name), Text: "not the name of a job"})
	})
	if err != nil {
		return err
	}
	for _, id := range q.withResults() {
		seen[id] = true
	}
	for _, id := range sortedIDs(seen) {
		if behind[id] {
			continue
		}
		if err := q.checkJobResults(id, repair, r); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) withResults() (ids []JobID) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.WithResults()
}

func (q *Queue) checkJobResults(id JobID, repair bool, r *Report) error {
	j, err := q.Job(id)
	if err != nil && !errors.Is(err, ErrNoJob) {
		return err
	}
	var bad []badResult
	for _, want := range j.Results {
		n, err := q.checkResult(id, want)
		if err != nil {
			bad = append(bad, badResult{want.Name, err, true})
		}
		r.Octets += n
	}
	err = q.tree.ResultNames(id, func(name string) {
		if _, ok := j.Result(name); !ok {
			bad = append(bad, badResult{name, errors.New("result that no job file names"), false})
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return q.mendResults(id, bad, repair, r)
}

func (q *Queue) checkResult(id JobID, want Result) (int64, error) {
	n, sum, err := q.tree.SumResult(id, want.Name, q.unplaced(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errors.New("result missing")
	case err != nil:
		return 0, err
	case n != want.Size || sum != want.SHA256:
		return 0, errors.New("result has not its size and SHA-256 digest")
	}
	return n, nil
}
