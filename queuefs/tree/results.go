package tree

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// ResultWork is what the results of a job lack to be as they should.
type ResultWork struct {
	Wipe  bool     // all that are there go, except those placed now
	Place []Placed // new ones
	Drop  []string // temporary files of removed results
}

// Placed is a temporary file and its name as a result.
type Placed struct{ Temp, Name string }

// WriteResults does the work on the results of a job.
func (t *Tree) WriteResults(id job.ID, w ResultWork) error {
	for _, temp := range w.Drop {
		if err := t.opts.Temp.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case len(w.Place) > 0:
	case w.Wipe:
		return t.removeResults(id)
	default:
		return nil
	}
	all, err := t.root.AddSub(Results)
	if err != nil {
		return err
	}
	defer all.Close()
	dir, err := all.AddSub(id.String())
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, p := range w.Place {
		err := t.opts.Temp.Rename(p.Temp, dir, p.Name)
		if errors.Is(err, fs.ErrNotExist) {
			// It got its name before a crash, or other hands took it away.
			if _, err = dir.Stat(p.Name); errors.Is(err, fs.ErrNotExist) {
				t.opts.Report(t.ResultPath(id, p.Name), "result lost")
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	if !w.Wipe {
		return nil
	}
	return removeBut(dir, func(name string) bool {
		return slices.ContainsFunc(w.Place, func(p Placed) bool { return p.Name == name })
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
func (t *Tree) removeResults(id job.ID) error {
	all, err := t.root.Sub(Results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	return all.RemoveTree(id.String())
}

// resultsOf opens the directory with the results of a job.
func (t *Tree) resultsOf(id job.ID) (*durable.Dir, error) {
	all, err := t.root.Sub(Results)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return all.Sub(id.String())
}

// ResultPath returns the path of a result below the home.
func (t *Tree) ResultPath(id job.ID, name string) string {
	return t.Path(Results, id.String()+"/"+name)
}

// HasResults reports whether the job may have a directory of results.
func (t *Tree) HasResults(id job.ID) bool {
	all, err := t.root.Sub(Results)
	if err == nil {
		defer all.Close()
		_, err = all.Stat(id.String())
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// ResultDirs returns the jobs with results, and calls strange with the names of
// other entries.
func (t *Tree) ResultDirs(strange func(name string)) (map[job.ID]bool, error) {
	all, err := t.root.Sub(Results)
	if errors.Is(err, fs.ErrNotExist) {
		return map[job.ID]bool{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return names(all, strange)
}

// ResultNames calls visit with the names of the results of a job. The error wraps
// [fs.ErrNotExist] if there are none.
func (t *Tree) ResultNames(id job.ID, visit func(name string)) error {
	dir, err := t.resultsOf(id)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Names(visit)
}

// OpenResult opens a result. placed are results that may lack their names yet.
func (t *Tree) OpenResult(id job.ID, name string, placed []Placed) (*os.File, error) {
	for _, p := range placed {
		if p.Name == name {
			if f, err := t.opts.Temp.Open(p.Temp); !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	dir, err := t.resultsOf(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(name)
}

// SumResult reads a result and returns its length and SHA-256 digest; placed as
// for [Tree.OpenResult].
func (t *Tree) SumResult(id job.ID, name string, placed []Placed) (n int64, sum [32]byte, err error) {
	f, err := t.OpenResult(id, name, placed)
	if err != nil {
		return 0, sum, err
	}
	return sumOf(f)
}

// SetResultAside moves a result to corrupt/ and returns its name there, "" if it
// is not there.
func (t *Tree) SetResultAside(id job.ID, name string) (to string, err error) {
	dir, err := t.resultsOf(id)
	if err == nil {
		to, err = t.root.SetAside(dir, name, Results+"-"+id.String()+"-"+name)
		dir.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
}
