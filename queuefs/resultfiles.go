package queuefs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/durable"
)

// resultDir has a directory for each job with results.
const resultDir = "result"

// Results get their names after the journal, as large payloads do: a record names
// the temporary file, synced before. So a crash leaves no unknown result, and a
// job back in pending keeps none of a former attempt.

// resultWork is the difference between journal and files in the results of a job.
type resultWork struct {
	wipes int           // how often all results went
	place []placeResult // new ones since
	drop  []string      // temporary files of removed results
}

type placeResult struct{ temp, name string }

// followResults notes the demands of the record on the results of its job; had
// reports whether there may be files. q.mu is held.
func (q *Queue) followResults(r *record, had bool) {
	w, waits := q.backlog.results[r.job]
	switch {
	case r.flags&recResult != 0:
		temp, name, _ := strings.Cut(r.temp, "/")
		w.place = append(slices.Clip(w.place), placeResult{temp, name})
	case r.flags&recResults == 0 && (had || waits && len(w.place) > 0):
		w.wipes++
		w.drop = slices.Clip(w.drop)
		for _, p := range w.place {
			w.drop = append(w.drop, p.temp)
		}
		w.place = nil
	default:
		return
	}
	if q.backlog.results == nil {
		q.backlog.results = map[JobID]resultWork{}
	}
	q.backlog.results[r.job] = w
}

// hasResultFiles reports whether the job has results on disk. It stands in for the
// index during a replay, if the index is later than the record: pages are written
// while changes go on.
func (q *Queue) hasResultFiles(id JobID) bool {
	all, err := q.dirs.root.Sub(resultDir)
	if err != nil {
		return false
	}
	defer all.Close()
	_, err = all.Stat(id.String())
	return err == nil
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
	if err := q.placeResults(id, &w); err != nil {
		return fmt.Errorf("results of %v: %w", id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.backlog.results[id]
	if n.wipes == w.wipes {
		n.place = n.place[len(w.place):]
	}
	n.wipes -= w.wipes
	n.drop = n.drop[len(w.drop):]
	if n.wipes == 0 && len(n.place) == 0 && len(n.drop) == 0 {
		delete(q.backlog.results, id)
	} else {
		q.backlog.results[id] = n
	}
	return nil
}

func (q *Queue) placeResults(id JobID, w *resultWork) error {
	for _, temp := range w.drop {
		if err := q.svc.temp.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case len(w.place) > 0:
	case w.wipes > 0:
		return q.removeResults(id)
	default:
		return nil
	}
	all, err := q.dirs.root.AddSub(resultDir)
	if err != nil {
		return err
	}
	defer all.Close()
	dir, err := all.AddSub(id.String())
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, p := range w.place {
		err := q.svc.temp.Rename(p.temp, dir, p.name)
		if errors.Is(err, fs.ErrNotExist) {
			// It got its name before a crash, or other hands took it away.
			if _, err = dir.Stat(p.name); errors.Is(err, fs.ErrNotExist) {
				q.svc.report(Problem{Path: q.resultPath(id, p.name), Text: "result lost"})
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	if w.wipes == 0 {
		return nil
	}
	return removeBut(dir, func(name string) bool {
		return slices.ContainsFunc(w.place, func(p placeResult) bool { return p.name == name })
	})
}

func removeBut(dir *durable.Dir, keep func(name string) bool) error {
	var names []string
	if err := dir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if keep(name) {
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeResults removes all results of a job.
func (q *Queue) removeResults(id JobID) error {
	all, err := q.dirs.root.Sub(resultDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	return all.RemoveTree(id.String())
}

// foundResults makes the results of a job without a job file from their files.
func (q *Queue) foundResults(id JobID) (found []Result) {
	dir, err := q.resultsOf(id)
	if err != nil {
		return nil
	}
	defer dir.Close()
	dir.Names(func(name string) {
		f, err := q.openResult(id, name)
		if err != nil || CheckResultName(name) != nil || len(found) == MaxResults {
			return
		}
		defer f.Close()
		r, h := Result{Name: name}, sha256.New()
		if r.Size, err = io.Copy(h, f); err == nil {
			h.Sum(r.SHA256[:0])
			found = append(found, r)
		}
	})
	slices.SortFunc(found, func(a, b Result) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// restored is a job made from memory, without its job file.
func (q *Queue) restored(id JobID, v *view) Job {
	j := v.job(id)
	if v.Results {
		j.Results = q.foundResults(id)
	}
	return j
}

func (q *Queue) resultPath(id JobID, name string) string {
	return q.path(resultDir, id.String()+"/"+name)
}

// checkResults compares the results of a queue with the job files, except for jobs
// behind the journal. Repairing moves unknown and damaged results to corrupt/.
func (q *Queue) checkResults(behind map[JobID]bool, repair bool, r *Report) error {
	strange := func(path, why string) { r.Problems = append(r.Problems, Problem{Path: path, Text: why}) }
	seen := map[JobID]bool{}
	all, err := q.dirs.root.Sub(resultDir)
	if err == nil {
		defer all.Close()
		err = all.Names(func(name string) {
			if id, err := ParseJobID(name); err == nil {
				seen[id] = true
			} else {
				strange(q.path(resultDir, name), "not the name of a job")
			}
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	dir, err := q.resultsOf(id)
	if err == nil {
		err = dir.Names(func(name string) {
			if _, ok := j.result(name); !ok {
				bad = append(bad, badResult{name, errors.New("result that no job file names"), false})
			}
		})
		dir.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return q.mendResults(id, bad, repair, r)
}

func (q *Queue) checkResult(id JobID, want Result) (int64, error) {
	f, err := q.openResult(id, want.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("result missing")
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		return 0, err
	case n != want.Size || [32]byte(h.Sum(nil)) != want.SHA256:
		return 0, errors.New("result has not its size and SHA-256 digest")
	}
	return n, nil
}
