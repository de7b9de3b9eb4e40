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
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
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

// A ResultBacklog is the difference between journal and files in the results of a job.
// Its values are kept by callers while it goes on, so its slices are never changed in
// place.
type ResultBacklog struct {
	wipes int      // how often all results went
	place []Placed // new ones since
	drop  []string // temporary files of removed results
}

// Add notes a new result.
func (b *ResultBacklog) Add(p Placed) { b.place = append(slices.Clip(b.place), p) }

// Wipe notes that all results go.
func (b *ResultBacklog) Wipe() {
	b.wipes++
	b.drop = slices.Clip(b.drop)
	for _, p := range b.place {
		b.drop = append(b.drop, p.Temp)
	}
	b.place = nil
}

// Placed returns the new results.
func (b ResultBacklog) Placed() []Placed { return b.place }

// Waits reports whether the file of a result is about to be written, or all files of results
// to be removed.
func (b ResultBacklog) Waits(name string) bool {
	return b.wipes > 0 || slices.ContainsFunc(b.place, func(p Placed) bool { return p.Name == name })
}

// Work returns the work to be done for [Tree.WriteResults].
func (b ResultBacklog) Work() ResultWork {
	return ResultWork{Wipe: b.wipes > 0, Place: b.place, Drop: b.drop}
}

// Done takes out the work of a former state of the backlog. It returns false if none is
// left.
func (b *ResultBacklog) Done(was ResultBacklog) bool {
	if b.wipes == was.wipes {
		b.place = b.place[len(was.place):]
	}
	b.wipes -= was.wipes
	b.drop = b.drop[len(was.drop):]
	return b.wipes > 0 || len(b.place) > 0 || len(b.drop) > 0
}

// Files is the wanted state of the files of a job.
type Files struct {
	ID            job.ID
	Status        job.Status // 0: culled, without files
	From          job.Status // of the job file in the directory; 0: none yet, or [index.FiledUnknown]
	Text, Payload []byte     // of job file and payload; nil: stays as it is
	Temp          string     // temporary file with a large payload; "": none
	Size          int64      // of the payload
	PayloadFiled  bool       // the payload has its name
	Begun         bool       // writing began: From may no longer hold

	name   string
	strays []job.Status // with a file that should not be there
}

// Prepare has the system read what the changes of directories will ask of the
// disk. If it is unknown where the job file is, it compares the files with f:
// after a crash the files of most jobs are as they should be. Contents are
// trusted only if believed.
func (t *Tree) Prepare(f *Files, believed bool) {
	f.name = f.ID.String()
	if f.Status == 0 {
		return
	}
	if f.Payload != nil {
		_, _ = t.pays().Stat(f.name)
	}
	if f.From == index.FiledUnknown {
		t.compare(f, believed)
		return
	}
	if f.From != 0 {
		_, _ = t.status(f.From).Stat(f.name)
	}
	if f.From != f.Status {
		_, _ = t.status(f.Status).Stat(f.name)
	}
}

// compare finds the files of f that are there already.
func (t *Tree) compare(f *Files, believed bool) {
	for st := job.Pending; st <= job.Deleted; st++ {
		if st == f.Status {
			if believed && holds(t.status(st), f.name, f.Text) {
				f.Text = nil
			}
		} else if _, err := t.status(st).Stat(f.name); !errors.Is(err, fs.ErrNotExist) {
			f.strays = append(f.strays, st)
		}
	}
	if f.Payload != nil && believed && holds(t.pays(), f.name, f.Payload) {
		f.Payload = nil
	}
}

// holds reports whether a file has these contents.
func holds(d *durable.Dir, name string, data []byte) bool {
	st, err := d.Stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(data)) {
		return false
	}
	got, err := d.ReadFile(name, make([]byte, 0, len(data)+1024), len(data))
	return err == nil && bytes.Equal(got, data)
}

// WritePayloads writes the payloads of prepared files, up to the first error, and
// returns the number of jobs done. The changes of directories take turns, those
// of payloads beside the turns of job files: a processor is lost while it waits
// for the lock of a directory.
func (t *Tree) WritePayloads(files []*Files) (int, error) {
	return inTurn(&t.payTurn, files, t.writePayload)
}

// WriteJobFiles writes the job files of jobs with payloads in place, up to the
// first error, and returns the number of jobs done. A culled job loses all files.
func (t *Tree) WriteJobFiles(files []*Files) (int, error) {
	return inTurn(&t.jobTurn, files, t.writeJobFile)
}

func inTurn(turn *sync.Mutex, files []*Files, do func(*Files) error) (n int, err error) {
	turn.Lock()
	defer turn.Unlock()
	for n < len(files) && err == nil {
		files[n].Begun = true
		if err = do(files[n]); err == nil {
			n++
		}
	}
	return n, err
}

// writePayload writes the payload, or gives a large one its name. A file that
// could not be trusted is written anew.
func (t *Tree) writePayload(f *Files) error {
	switch {
	case f.Status == 0 || f.PayloadFiled:
		return nil
	case f.Temp == "" && f.Payload == nil:
		return nil
	case f.Temp == "":
		return t.pays().Renew(f.name, f.Payload)
	}
	err := t.opts.Temp.Rename(f.Temp, t.pays(), f.name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, e := t.opts.Temp.Stat(f.Temp); !errors.Is(e, fs.ErrNotExist) {
		return err // payload/ itself is missing
	}
	// It got its name before a crash, or other hands took it away. Then the other
	// files go on: a reader or a check of the payload will find it missing.
	switch st, e := t.pays().Stat(f.name); {
	case e != nil && !errors.Is(e, fs.ErrNotExist):
		return e
	case e != nil || st.Size != f.Size:
		t.opts.Report(t.Path(Payloads, f.name), "payload lost before it got its name")
	}
	return nil
}

// writeJobFile makes the job file, or gives it new lines and moves it.
func (t *Tree) writeJobFile(f *Files) error {
	if f.Status == 0 {
		return t.remove(f)
	}
	to := t.status(f.Status)
	for _, st := range f.strays {
		if err := t.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case f.Text == nil:
		return nil
	case f.From == 0 || f.From == index.FiledUnknown:
		return to.Renew(f.name, f.Text)
	}
	// The new lines first, then the move. A crash between the two leaves
	// pending/ID that says consumed; the journal still has the event.
	old := t.status(f.From)
	err := old.Rewrite(f.name, f.Text)
	if err == nil && f.From != f.Status {
		err = old.Rename(f.name, to, f.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return to.Renew(f.name, f.Text) // other hands took it away
	}
	return err
}

// remove removes the files of a culled job, also a payload that never got its
// name.
func (t *Tree) remove(f *Files) error {
	if f.Temp != "" {
		if err := t.opts.Temp.Remove(f.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, st := range []job.Status{job.Pending, job.Consumed, job.Deleted, 0} {
		if err := t.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

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

// Bring calls do while nobody works on the files of a job. In it the methods below put
// files in their places that come from elsewhere.
func (t *Tree) Bring(do func() error) error {
	t.work.Lock()
	defer t.work.Unlock()
	return do()
}

// BringJobFile writes the job file of a job in a status.
func (t *Tree) BringJobFile(id job.ID, st job.Status, text []byte) error {
	return t.bring(id, st, text)
}

// BringPayload writes the payload of a job.
func (t *Tree) BringPayload(id job.ID, data []byte) error { return t.bring(id, 0, data) }

func (t *Tree) bring(id job.ID, st job.Status, data []byte) error {
	d := t.status(st)
	err := d.Put(id.String(), data)
	if errors.Is(err, fs.ErrExist) { // of an attempt before, and perhaps torn
		err = d.Renew(id.String(), data)
	}
	return err
}

// BringResult writes a result of a job.
func (t *Tree) BringResult(id job.ID, name string, data []byte) error {
	temp, err := t.opts.Temp.Stage(name, data)
	if err != nil {
		return err
	}
	return t.WriteResults(id, ResultWork{Place: []Placed{{Temp: temp, Name: name}}})
}

// BringTemp gives a temporary file the name of the payload of a job.
func (t *Tree) BringTemp(id job.ID, temp string) error {
	return t.opts.Temp.Rename(temp, t.pays(), id.String())
}

// read runs do as the step name of reading, under [Options.Reads].
func (t *Tree) read(name string, do func() error) error {
	if t.opts.Reads == nil {
		return do()
	}
	return t.opts.Reads(name, do)
}

// JobFile appends the job file of a job in a status to buf.
func (t *Tree) JobFile(id job.ID, st job.Status, buf []byte) (text []byte, err error) {
	err = t.read("job file", func() (err error) {
		var name [13]byte
		text, err = t.status(st).ReadFile(string(id.Append(name[:0])), buf, t.opts.MaxJobFile)
		return err
	})
	return text, err
}

// ReadPayload appends the payload of a job, of at most max bytes, to buf. temp is
// the temporary file of a payload that may lack its name yet, or "".
func (t *Tree) ReadPayload(id job.ID, temp string, buf []byte, max int) (data []byte, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			data, err = t.opts.Temp.ReadFile(temp, buf, max)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) { // it has its name by now
			var name [13]byte
			data, err = t.pays().ReadFile(string(id.Append(name[:0])), buf, max)
		}
		return err
	})
	return data, err
}

// OpenPayload opens the payload of a job; temp as for [Tree.ReadPayload].
func (t *Tree) OpenPayload(id job.ID, temp string) (f *os.File, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			f, err = t.opts.Temp.Open(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			f, err = t.pays().Open(id.String())
		}
		return err
	})
	return f, err
}

// StatPayload looks for the payload of a job; temp as for [Tree.ReadPayload].
func (t *Tree) StatPayload(id job.ID, temp string) (st unix.Stat_t, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			st, err = t.opts.Temp.Stat(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			var name [13]byte
			st, err = t.pays().Stat(string(id.Append(name[:0])))
		}
		return err
	})
	return st, err
}

// SumPayload reads a payload with a name and returns its length and SHA-256
// digest.
func (t *Tree) SumPayload(id job.ID) (n int64, sum [32]byte, err error) {
	f, err := t.pays().Open(id.String())
	if err != nil {
		return 0, sum, err
	}
	return sumOf(f)
}

// sumOf reads f to its end and closes it.
func sumOf(f *os.File) (n int64, sum [32]byte, err error) {
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	h.Sum(sum[:0])
	return n, sum, err
}

// LinkPayload gives the payload of a job a second name among the temporary files;
// temp as for [Tree.ReadPayload]. linked is false without an error if there is no
// file yet, or if the file system has no such links: then the payload must be
// copied.
func (t *Tree) LinkPayload(id job.ID, temp string) (name string, linked bool, err error) {
	if temp != "" {
		name, err = t.opts.Temp.LinkTemp(temp, t.opts.Temp)
	}
	if name == "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		name, err = t.pays().LinkTemp(id.String(), t.opts.Temp)
	}
	if errors.Is(err, fs.ErrNotExist) || linkless(err) {
		return "", false, nil
	}
	return name, err == nil, err
}

// linkless reports whether a file cannot have a second name here.
func linkless(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EMLINK, syscall.EXDEV, syscall.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// JobFiles returns the status of the wanted jobs by the directories of their job
// files. Other files are set aside. A job with two files keeps the later one, by
// the event number seq finds in a job file.
func (t *Tree) JobFiles(wanted func(job.ID) bool, seq func(text []byte) job.Seq) (map[job.ID]job.Status, error) {
	where := map[job.ID]job.Status{}
	for st := job.Pending; st <= job.Deleted; st++ {
		d := t.status(st)
		var strange []string
		var twice []job.ID
		err := d.Names(func(name string) {
			id, err := job.ParseID(name)
			switch {
			case err != nil:
				strange = append(strange, name)
			case !wanted(id):
			case where[id] != 0:
				twice = append(twice, id)
			default:
				where[id] = st
			}
		})
		if err != nil {
			return nil, err
		}
		for _, name := range strange {
			if strings.HasPrefix(name, durable.TempPrefix) {
				if e := d.Remove(name); e == nil || errors.Is(e, unix.EROFS) {
					continue
				}
			}
			err = errors.Join(err, t.SetAside(st, name, "not the name of a job"))
		}
		for _, id := range twice {
			older := st
			if t.seq(id, st, seq) > t.seq(id, where[id], seq) {
				older, where[id] = where[id], st
			}
			err = errors.Join(err, t.SetAside(older, id.String(), "the job has a later file in "+where[id].String()))
		}
		if err != nil {
			return nil, err
		}
	}
	return where, nil
}

// seq returns the event number in a job file, 0 if it cannot be read.
func (t *Tree) seq(id job.ID, st job.Status, of func(text []byte) job.Seq) job.Seq {
	text, err := t.JobFile(id, st, nil)
	if err != nil {
		return 0
	}
	return of(text)
}

// PayloadFiles returns the jobs with a payload, and calls strange with the names
// of other files. It removes files that a crash left unfinished.
func (t *Tree) PayloadFiles(strange func(name string)) (map[job.ID]bool, error) {
	var unfinished []string
	ids, err := names(t.pays(), func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			unfinished = append(unfinished, name)
		} else {
			strange(name)
		}
	})
	for _, name := range unfinished {
		if e := t.pays().Remove(name); e != nil && !errors.Is(e, unix.EROFS) {
			strange(name)
		}
	}
	return ids, err
}

// names returns the jobs with an entry in d.
func names(d *durable.Dir, strange func(name string)) (map[job.ID]bool, error) {
	ids := map[job.ID]bool{}
	err := d.Names(func(name string) {
		if id, err := job.ParseID(name); err == nil {
			ids[id] = true
		} else {
			strange(name)
		}
	})
	return ids, err
}

// SetAside moves a file in the directory of a status to corrupt/ and reports it. In
// a directory opened for reading it only reports it.
func (t *Tree) SetAside(st job.Status, name, why string) error {
	to, err := t.root.SetAside(t.status(st), name, st.String()+"-"+name)
	if errors.Is(err, unix.EROFS) {
		t.opts.Report(t.Path(st.String(), name), why)
		return nil
	}
	if err != nil {
		return err
	}
	t.opts.Report(t.Path(st.String(), name), why+"; moved to "+to)
	return nil
}

// SetPayloadAside moves a file among the payloads to corrupt/ and returns its name
// there.
func (t *Tree) SetPayloadAside(name string) (to string, err error) {
	return t.root.SetAside(t.pays(), name, Payloads+"-"+name)
}

// A Payload is the content of a job, to be closed after use. It stays
// readable even when the job is culled meanwhile.
type Payload struct {
	io.ReadSeeker
	size int64
	file *os.File
}

// PayloadOf returns a payload in memory.
func PayloadOf(data []byte) *Payload {
	return &Payload{ReadSeeker: bytes.NewReader(data), size: int64(len(data))}
}

// PayloadIn returns a payload of size octets in a file.
func PayloadIn(f *os.File, size int64) *Payload {
	return &Payload{ReadSeeker: f, size: size, file: f}
}

// Size returns the octets of the payload.
func (p *Payload) Size() int64 { return p.size }

// Close lets go of the payload.
func (p *Payload) Close() error {
	if p.file != nil {
		return p.file.Close()
	}
	return nil
}

// WriteTo writes the rest of the payload to w for a consumer, the last reader
// of it. For one of many readers use Read or SendTo.
func (p *Payload) WriteTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return durable.CopyOnce(w, p.file)
	}
	return p.ReadSeeker.(*bytes.Reader).WriteTo(w)
}

// SendTo is WriteTo for one of many readers of the payload: it goes from the
// page cache to the connection without passing through the program.
func (p *Payload) SendTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return io.Copy(w, p.file)
	}
	return p.WriteTo(w)
}
