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
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"

	"golang.org/x/sys/unix"
)

// Names in the directory of a queue, beside those of the statuses.
const (
	Payloads = "payload"
	Results  = "result"
)

// Options are the settings of all trees of a home.
type Options struct {
	Path       string                  // of the directory of all queues below the home, for reports
	Temp       *durable.Dir            // of files without a name yet; the caller closes it
	Cache      *durable.Cache          // of the open directories of all queues
	MaxJobFile int                     // bytes of a job file; longer ones are damaged
	Report     func(path, text string) // called with damage found
	Reads      durable.Fault           // for tests: of the steps "job file" and "payload"
}

// A Tree is the directory of a queue. Its methods are safe for concurrent
// use, except that only one caller at a time writes the files of a job.
type Tree struct {
	opts *Options
	root *durable.Dir
	subs atomic.Pointer[subs] // nil: not used yet, as in most queues of a home with many

	work             sync.RWMutex // read-held while files of a job are written
	payTurn, jobTurn sync.Mutex   // held while entries of the directories change
}

// subs are the directories in the one of a queue, of a status or, first, of the payloads.
type subs [job.Deleted + 1]*durable.Dir

// subNames are the names of subs.
var subNames = [...]string{Payloads, job.Pending: job.Pending.String(), job.Consumed: job.Consumed.String(), job.Deleted: job.Deleted.String()}

// Open opens the directory of a queue below dir. The directories in it are made if need
// be, and open, when they are used.
func Open(dir *durable.Dir, name string, opts *Options) (*Tree, error) {
	st, err := dir.Stat(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = &fs.PathError{Op: "open", Path: dir.Path() + "/" + name, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return &Tree{opts: opts, root: opts.Cache.Dir(dir, name, false)}, nil
}

// status returns the directory of a status.
func (t *Tree) status(st job.Status) *durable.Dir {
	all := t.subs.Load()
	if all == nil {
		all = new(subs)
		for i, name := range subNames {
			all[i] = t.opts.Cache.Dir(t.root, name, true)
		}
		if !t.subs.CompareAndSwap(nil, all) {
			all = t.subs.Load() // nothing was opened yet
		}
	}
	return all[st]
}

// pays returns the directory of the payloads.
func (t *Tree) pays() *durable.Dir { return t.status(0) }

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
	if all := t.subs.Load(); all != nil {
		for _, d := range all {
			d.Close()
		}
	}
	t.root.Close() // without it none opens any more
}

// Root is the directory of the queue, for its properties.
func (t *Tree) Root() *durable.Dir { return t.root }

// Path returns the path below the home of a file in a directory of the queue.
func (t *Tree) Path(dir, name string) string {
	return t.opts.Path + "/" + path.Base(t.root.Path()) + "/" + dir + "/" + name
}

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
	for i, name := range [...]string{subNames[job.Pending], subNames[job.Consumed], subNames[job.Deleted], Payloads} {
		if at[i], err = t.root.Changed(name); err != nil {
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
