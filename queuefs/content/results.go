package content

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/tree"
)

// MaxResults is how many results a job may have.
const MaxResults = job.MaxResults

// ErrNoResult is the error for a job without a result of the name.
var ErrNoResult = errors.New("result not found")

// ErrResultDamaged is the error for a result without its file, its length or its
// digest.
var ErrResultDamaged = errors.New("the result is lost or damaged; a requeue of the job makes it anew")

// Result opens a result of a job, to be closed after use. The error is
// [ErrNoResult] if the job has none of the name, and [ErrResultDamaged] if the file is
// not the one of the worker; that is reported.
func (r *Reader) Result(id job.ID, name string) (job.Result, *tree.Payload, error) {
	if err := job.CheckResultName(name); err != nil {
		return job.Result{}, nil, err
	}
	var err error
	for range tries {
		j, e := r.Job(id)
		if e != nil {
			return job.Result{}, nil, e
		}
		res, ok := j.Result(name)
		if !ok {
			return job.Result{}, nil, fmt.Errorf("%v: %s: %w", id, name, ErrNoResult)
		}
		f, e := r.Tree.OpenResult(id, name, r.unplaced(id))
		if err = e; errors.Is(err, fs.ErrNotExist) {
			if r.Far != nil {
				if _, e := r.Far.Result(id, res); e != nil {
					return job.Result{}, nil, failure("result "+name, id, e)
				}
			}
			continue // taken back meanwhile, or just getting its name
		}
		if err != nil {
			break
		}
		if err = r.Verified.Check(f, res.Size, res.SHA256); err != nil {
			f.Close()
			break
		}
		return res, tree.PayloadIn(f, res.Size), nil
	}
	if durable.Lost(err) {
		r.Report(r.Tree.Path(tree.Results, id.String()+"/"+name), err.Error())
		err = errors.Join(ErrResultDamaged, err)
	}
	return job.Result{}, nil, failure("result "+name, id, err)
}

// CheckResult reads a result and compares it with the job file. It returns the octets
// of a good one.
func (r *Reader) CheckResult(id job.ID, want job.Result) (int64, error) {
	n, sum, err := r.Tree.SumResult(id, want.Name, r.unplaced(id))
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

// unplaced returns the results of a job that may lack their names yet.
func (r *Reader) unplaced(id job.ID) []tree.Placed {
	b, _ := r.Ledger.Results(id)
	return b.Placed()
}

// foundResults makes the results of a job without a job file from their files, without
// the damaged ones.
func (r *Reader) foundResults(id job.ID) (found []job.Result, err error) {
	placed := r.unplaced(id)
	note := func(e error) {
		if Transient(e) && err == nil {
			err = failure("results", id, e)
		}
	}
	note(r.Tree.ResultNames(id, func(name string) {
		if job.CheckResultName(name) != nil || len(found) == MaxResults {
			return
		}
		res := job.Result{Name: name}
		var e error
		if res.Size, res.SHA256, e = r.Tree.SumResult(id, name, placed); e == nil {
			found = append(found, res)
		}
		note(e)
	}))
	slices.SortFunc(found, func(a, b job.Result) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// AddResults gives entries the results of their jobs, from the job files. A job with
// later events has the results of now, and one that is gone or cannot be read has none.
func (r *Reader) AddResults(entries []ledger.Entry) {
	for i := range entries {
		if e := &entries[i]; e.HasResults {
			if j, err := r.Job(e.Job); err == nil {
				e.Results = j.Results
			}
		}
	}
}
