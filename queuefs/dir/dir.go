// Package dir is the directory of a queue: it writes the files of jobs behind the journal,
// reads them, lists them, and sets aside what it cannot read.
//
//	pending/ID consumed/ID deleted/ID   job files, exactly one for each job
//	payload/ID                          payload, immutable
//	result/ID/NAME                      results of a worker
//	corrupt/                            files set aside
//
// Large payloads and results arrive as synced files in a temporary directory and
// get their names here. A [Dir] makes no event: it reads from the ledger of the queue what
// the files lack, and tells it what was written. Every writing method may be called again
// after any of its steps, and after a crash from the start. The changes are not synced.
package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// Names in the directory of a queue, beside those of the statuses.
const (
	Payloads = "payload"
	Results  = "result"
)

// Options are the settings of all Dirs of a home.
type Options struct {
	Path       string                  // of the directory of all queues below the home, for reports
	Temp       *durable.Dir            // of files without a name yet; the caller closes it
	Cache      *durable.Cache          // of the open directories of all queues
	MaxJobFile int                     // bytes of a job file; longer ones are damaged
	Report     func(path, text string) // called with damage found
	InDoubt    func() bool             // whether files may be in the cache of the system, and not on the disk
	Reads      durable.Fault           // for tests: of the steps "job file" and "payload"
}

// A Dir is the directory of a queue. Its methods are safe for concurrent
// use, except that only one caller at a time writes the files of a job.
type Dir struct {
	opts   *Options
	root   *durable.Dir
	ledger *ledger.Ledger
	subs   atomic.Pointer[subs] // nil: not used yet, as in most queues of a home with many

	work             sync.RWMutex // read-held while files of a job are written
	payTurn, jobTurn sync.Mutex   // held while entries of the directories change
}

// subs are the directories in the one of a queue, of a status or, first, of the payloads.
type subs [job.Deleted + 1]*durable.Dir

// subNames are the names of subs.
var subNames = [...]string{Payloads, job.Pending: job.Pending.String(), job.Consumed: job.Consumed.String(), job.Deleted: job.Deleted.String()}

// Open opens the directory of the queue of a ledger. The directories in it are made if need
// be, and open, when they are used.
func Open(queues *durable.Dir, name string, opts *Options, l *ledger.Ledger) (*Dir, error) {
	st, err := queues.Stat(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = &fs.PathError{Op: "open", Path: queues.Path() + "/" + name, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return &Dir{opts: opts, root: opts.Cache.Dir(queues, name, false), ledger: l}, nil
}

// status returns the directory of a status.
func (d *Dir) status(st job.Status) *durable.Dir {
	all := d.subs.Load()
	if all == nil {
		all = new(subs)
		for i, name := range subNames {
			all[i] = d.opts.Cache.Dir(d.root, name, true)
		}
		if !d.subs.CompareAndSwap(nil, all) {
			all = d.subs.Load() // nothing was opened yet
		}
	}
	return all[st]
}

// pays returns the directory of the payloads.
func (d *Dir) pays() *durable.Dir { return d.status(0) }

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
func (d *Dir) Close() {
	if all := d.subs.Load(); all != nil {
		for _, sub := range all {
			sub.Close()
		}
	}
	d.root.Close() // without it none opens any more
}

// Root is the directory of the queue, for its properties.
func (d *Dir) Root() *durable.Dir { return d.root }

// Path returns the path below the home of a file in a directory of the queue.
func (d *Dir) Path(dir, name string) string {
	return d.opts.Path + "/" + path.Base(d.root.Path()) + "/" + dir + "/" + name
}

// Changed returns the times of the last changes of the directories where an
// operator may move files.
func (d *Dir) Changed() (at [4]int64, err error) {
	for i, name := range [...]string{subNames[job.Pending], subNames[job.Consumed], subNames[job.Deleted], Payloads} {
		if at[i], err = d.root.Changed(name); err != nil {
			return at, err
		}
	}
	return at, nil
}

// Foreign returns an error for a file that has no place in a queue without jobs,
// else nil. ours are the names of further files of the queue.
func (d *Dir) Foreign(ours ...string) error {
	dirs := []string{Payloads, Results, durable.Corrupt, job.Pending.String(), job.Consumed.String(), job.Deleted.String()}
	if err := foreign(d.root, "", append(ours, dirs...)...); err != nil {
		return err
	}
	for _, name := range dirs {
		sub, err := d.root.Sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = foreign(sub, name+"/")
			sub.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrForeign is the error of [Dir.Foreign] for a file.
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

// SetAside moves a file in the directory of a status to corrupt/ and reports it. In
// a directory opened for reading it only reports it.
func (d *Dir) SetAside(st job.Status, name, why string) error {
	to, err := d.root.SetAside(d.status(st), name, st.String()+"-"+name)
	if errors.Is(err, unix.EROFS) {
		d.opts.Report(d.Path(st.String(), name), why)
		return nil
	}
	if err != nil {
		return err
	}
	d.opts.Report(d.Path(st.String(), name), why+"; moved to "+to)
	return nil
}

// SetPayloadAside moves a file among the payloads to corrupt/ and returns its name
// there.
func (d *Dir) SetPayloadAside(name string) (to string, err error) {
	return d.root.SetAside(d.pays(), name, Payloads+"-"+name)
}
