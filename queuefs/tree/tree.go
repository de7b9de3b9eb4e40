// Package tree is the directory of a queue: it writes the files of jobs, reads
// them, and lists them.
//
//	pending/ID consumed/ID deleted/ID   job files, exactly one for each job
//	payload/ID                          payload, immutable
//	result/ID/NAME                      results of a worker
//	corrupt/                            files set aside
//
// Large payloads and results arrive as synced files in a temporary directory and
// get their names here. A [Tree] knows nothing of the journal: its caller says
// the state that the files of a job are to have. Every writing method may be
// called again after any of its steps, and after a crash from the start. The
// changes are not synced.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"

	"golang.org/x/sys/unix"
)

// Names in the directory of a queue, beside those of the statuses.
const (
	Payloads = "payload"
	Results  = "result"
)

// Options are the settings of a Tree.
type Options struct {
	Path       string                  // of the queue below the home, for reports
	Temp       *durable.Dir            // of files without a name yet; the caller closes it
	Cache      *durable.Cache          // of the open directories of all queues
	MaxJobFile int                     // bytes of a job file; longer ones are damaged
	Report     func(path, text string) // called with damage found
	Reads      durable.Fault           // for tests: of the steps "job file" and "payload"
}

// A Tree is the directory of a queue. Its methods are safe for concurrent
// use, except that only one caller at a time writes the files of a job.
type Tree struct {
	opts   Options
	root   *durable.Dir
	pays   *durable.Dir
	status [job.Deleted + 1]*durable.Dir // by status; 0 is nil

	work             sync.RWMutex // read-held while files of a job are written
	payTurn, jobTurn sync.Mutex   // held while entries of the directories change
}

// Open opens the directory of a queue below dir. The directories in it are made if need
// be, and open, when they are used.
func Open(dir *durable.Dir, name string, opts Options) (_ *Tree, err error) {
	t := &Tree{opts: opts, root: opts.Cache.Dir(dir, name, false)}
	t.pays = opts.Cache.Dir(t.root, Payloads, true)
	for st := job.Pending; st <= job.Deleted; st++ {
		t.status[st] = opts.Cache.Dir(t.root, st.String(), true)
	}
	st, err := dir.Stat(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = &fs.PathError{Op: "open", Path: dir.Path() + "/" + name, Err: unix.ENOTDIR}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Make makes the directories of the jobs of a queue in root, unsynced. taken says that there are
// files in them.
func Make(root *durable.Dir) (taken bool, err error) {
	for _, name := range []string{Payloads, job.Pending.String(), job.Consumed.String(), job.Deleted.String()} {
		d, err := root.AddSub(name)
		if err != nil {
			return taken, err
		}
		err = d.Names(func(name string) { taken = taken || !strings.HasPrefix(name, durable.TempPrefix) })
		d.Close()
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// Close closes the directories. Files that are open stay open.
func (t *Tree) Close() {
	for _, d := range append(t.status[job.Pending:], t.pays, t.root) {
		d.Close()
	}
}

// Root is the directory of the queue, for its properties.
func (t *Tree) Root() *durable.Dir { return t.root }

// Path returns the path below the home of a file in a directory of the queue.
func (t *Tree) Path(dir, name string) string { return t.opts.Path + "/" + dir + "/" + name }

// Begin starts work on the files of jobs; End ends it.
func (t *Tree) Begin() { t.work.RLock() }

// End ends the work that Begin started.
func (t *Tree) End() { t.work.RUnlock() }

// Settle waits until nobody works on the files of a job.
func (t *Tree) Settle() {
	t.work.Lock()
	defer t.work.Unlock()
}

// Changed returns the times of the last changes of the directories where an
// operator may move files.
func (t *Tree) Changed() (at [4]int64, err error) {
	for i, d := range append(t.status[job.Pending:], t.pays) {
		if at[i], err = d.Changed(); err != nil {
			return at, err
		}
	}
	return at, nil
}

// Foreign returns an error for a file that has no place in a queue without jobs,
// else nil. ours are the names of further files of the queue.
func (t *Tree) Foreign(ours ...string) error {
	dirs := []string{Payloads, Results, durable.Corrupt, job.Pending.String(), job.Consumed.String(), job.Deleted.String()}
	if err := foreign(t.root, "", append(ours, dirs...)...); err != nil {
		return err
	}
	for _, name := range dirs {
		d, err := t.root.Sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = foreign(d, name+"/")
			d.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrForeign is the error of [Tree.Foreign] for a file.
var ErrForeign = errors.New("not the program's to remove")

func foreign(d *durable.Dir, path string, ours ...string) error {
	var found string
	err := d.Names(func(name string) {
		if !strings.HasPrefix(name, durable.TempPrefix) && !slices.Contains(ours, name) {
			found = name
		}
	})
	if err == nil && found != "" {
		err = fmt.Errorf("%s%s is %w", path, found, ErrForeign)
	}
	return err
}
