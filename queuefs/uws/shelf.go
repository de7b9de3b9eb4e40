package uws

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// rootDir is below the home, and has a directory for each queue.
const (
	rootDir      = "uws"
	stagedDir    = "staged"
	jobsDir      = "jobs"
	corruptDir   = "corrupt"
	uploadSuffix = ".upload" // and a number: a file that came with a staged job
)

// uploadName returns the name of the n-th file of a staged job.
func uploadName(id string, n int) string { return id + uploadSuffix + strconv.Itoa(n) }

// parseUpload tells whether uploadName returned the name.
func parseUpload(name string) (id string, ok bool) {
	id, number, ok := strings.Cut(name, uploadSuffix)
	n, err := strconv.Atoi(number)
	return id, ok && isMade(id) && err == nil && n >= 0 && uploadName(id, n) == name
}

// A shelf has the records of the jobs of one queue. Nothing is made on disk
// before there is a record. Whoever uses it has entered it: the directories are
// closed when the last one leaves after the queue has gone.
type shelf struct {
	home   *durable.Dir
	q      *queuefs.Queue
	known  known
	past   history
	limits limits

	mu       sync.Mutex
	dirs     dirs
	users    int
	gone     bool // nothing more is written
	locks    map[string]*jobLock
	staged   map[string]stagedJob
	order    []stagedRef // of staged, the oldest first
	archived map[string]queuefs.JobID
	spared   map[queuefs.JobID]time.Time // see spare; less than all of them
	due      dues
	owed     map[string][]note // by job, of events that may have to be told; see telling
	unread   []string          // names of records that due and archived do not know of
	listed   bool              // unread has been filled
	strange  []error           // what was set aside, and nobody was told of yet
	formers  int               // records that were set aside as those of a former queue, likewise
}

// The dirs of a shelf are nil where there are none.
type dirs struct {
	staged, jobs *durable.Dir
}

func (d dirs) none() bool { return d.staged == nil }

// A stagedJob is what is asked of a staged job without reading its record.
type stagedJob struct {
	created time.Time
	owner   string
	aborted bool
}

// A stagedRef is a place in the order of staged jobs.
type stagedRef struct {
	created time.Time
	id      string
}

func (a stagedRef) compare(b stagedRef) int {
	if c := a.created.Compare(b.created); c != 0 {
		return c
	}
	return strings.Compare(a.id, b.id)
}

// A jobLock is held while the record of a job is changed.
type jobLock struct {
	sync.Mutex
	users int
}

// lock keeps others from changing the record of a job.
func (s *shelf) lock(id string) (unlock func()) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = map[string]*jobLock{}
	}
	l := s.locks[id]
	if l == nil {
		l = &jobLock{}
		s.locks[id] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, id)
		}
	}
}

// there returns the directories, if there are any.
func (s *shelf) there() dirs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirs
}

func (s *shelf) readFrom(dir *durable.Dir, id string) (*record, error) {
	text, err := dir.ReadFile(id, nil, maxRecord)
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(id, text)
	if err != nil {
		return nil, &strangeError{id, err}
	}
	return r, nil
}

// A strangeError says that a record cannot be understood.
type strangeError struct {
	id  string
	err error
}

func (e *strangeError) Error() string { return "record of " + e.id + ": " + e.err.Error() }
func (e *strangeError) Unwrap() error { return e.err }

// former tells whether a record is of a queue that had the name before.
func (s *shelf) former(r *record) bool { return r.created.Before(stamp(s.q.Info().Created)) }

// now is never before the queue was made, whatever the clock says, so that no
// record is taken for one of a former queue.
func (s *shelf) now(clock time.Time) time.Time {
	if made := stamp(s.q.Info().Created); clock.Before(made) {
		return made
	}
	return clock
}

// record returns the record of a job, nil if it has none.
func (s *shelf) record(id string) (*record, error) {
	d := s.there()
	if d.none() {
		return nil, nil
	}
	// RUN moves the record to the second place, so that one look at each in
	// the wrong order might miss it.
	for _, dir := range []*durable.Dir{d.jobs, d.staged, d.jobs} {
		if dir == d.staged && !isMade(id) {
			break // it was never staged
		}
		r, err := s.readFrom(dir, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.former(r) {
			continue
		}
		return r, nil
	}
	return nil, nil
}

// stage puts the record of a job that is not in the queue on stable storage.
func (s *shelf) stage(r *record) error {
	d, err := s.open(true)
	if err != nil {
		return err
	}
	if err := d.staged.Replace(r.id, r.text()); err != nil {
		return err
	}
	s.remember(r)
	return nil
}

func (s *shelf) remember(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.staged[r.id]; !there {
		ref := stagedRef{r.created, r.id}
		at, _ := slices.BinarySearchFunc(s.order, ref, stagedRef.compare)
		s.order = slices.Insert(s.order, at, ref)
	}
	s.staged[r.id] = stagedJob{r.created, r.owner, !r.aborted.IsZero()}
	s.due.set(r.id, r.destruction)
}

// started puts the record of a job of the queue on stable storage, and lets go
// of what was staged of it. From there on the queue says what the job is.
func (s *shelf) started(r *record) error {
	r.from, r.params, r.uploads = 0, nil, nil
	if err := s.keep(r); err != nil {
		return err
	}
	return s.unstage(r.id)
}

// keep puts the record of a job of the queue on stable storage.
func (s *shelf) keep(r *record) error {
	d, err := s.open(true)
	if err != nil {
		return err
	}
	if err := d.jobs.Replace(r.id, r.text()); err != nil {
		return err
	}
	s.note(r, r.next(time.Time{}))
	return nil
}

// note remembers of the record of a job of the queue what is asked for without
// reading it.
func (s *shelf) note(r *record, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due.set(r.id, next)
	delete(s.spared, r.job)
	if r.archived.IsZero() || !r.destroyed.IsZero() {
		delete(s.archived, r.id)
		return
	}
	if s.archived == nil {
		s.archived = map[string]queuefs.JobID{}
	}
	s.archived[r.id] = r.job
}

// lookAt makes the record of a job due then, see [Handler.look].
func (s *shelf) lookAt(id string, then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due.set(id, then)
}

// unstage removes what is staged of a job; it may be called again.
func (s *shelf) unstage(id string) error {
	s.mu.Lock()
	if st, there := s.staged[id]; there {
		delete(s.staged, id)
		if at, there := slices.BinarySearchFunc(s.order, stagedRef{st.created, id}, stagedRef.compare); there {
			s.order = slices.Delete(s.order, at, at+1)
		}
	}
	dir := s.dirs.staged
	s.mu.Unlock()
	if dir == nil {
		return nil
	}
	// The record goes last: a file without one is removed at the next opening.
	for n := range maxUploads {
		if err := dir.Remove(uploadName(id, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := dir.Remove(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.Sync()
}

// drop removes the record of a job of the queue.
func (s *shelf) drop(id string) error {
	d := s.there()
	if d.none() {
		return nil
	}
	if err := d.jobs.Remove(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.archived, id)
	return nil
}

// stagedBefore returns up to n staged jobs that come before one in the order,
// the newest first; the zero ref comes after all.
func (s *shelf) stagedBefore(ref stagedRef, n int) (some []stagedRef, owners []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.order)
	if ref.id != "" {
		at, _ = slices.BinarySearchFunc(s.order, ref, stagedRef.compare)
	}
	for at--; at >= 0 && len(some) < n; at-- {
		some = append(some, s.order[at])
		owners = append(owners, s.staged[s.order[at].id].owner)
	}
	return some, owners
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.staged)
}

// pending returns how many jobs are PENDING.
func (s *shelf) pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.staged {
		if !j.aborted {
			n++
		}
	}
	return n
}

// tell returns, once, what was set aside.
func (s *shelf) tell() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.formers > 0 {
		s.strange = append(s.strange, fmt.Errorf("%s/%s: %d records that are older than the queue were set aside in %s", rootDir, s.q.ID(), s.formers, corruptDir))
	}
	err := errors.Join(s.strange...)
	s.strange, s.formers = nil, 0
	return err
}

// setStrange sets a record aside that cannot be understood.
func (s *shelf) setStrange(dir *durable.Dir, kind, id string, why error) error {
	if err := s.setAside(dir, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strange = append(s.strange, fmt.Errorf("%s/%s/%s/%s was set aside in %s: %w", rootDir, s.q.ID(), kind, id, corruptDir, why))
	return nil
}

// setFormer sets a record aside that is older than the queue. It is not
// removed: the date of the queue may be wrong.
func (s *shelf) setFormer(dir *durable.Dir, id string) error {
	if err := s.setAside(dir, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.formers++
	return nil
}

// setAside moves a record, and the files that came with it, to where nothing
// looks. The record goes last: without it the files would be removed.
func (s *shelf) setAside(dir *durable.Dir, id string) error {
	queue, err := s.home.Sub(rootDir)
	if err != nil {
		return err
	}
	defer queue.Close()
	own, err := queue.Sub(s.q.ID())
	if err != nil {
		return err
	}
	defer own.Close()
	corrupt, err := own.MakeSub(corruptDir)
	if err != nil {
		return err
	}
	defer corrupt.Close()
	for n := range maxUploads {
		name := uploadName(id, n)
		if err := dir.Rename(name, corrupt, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return dir.Rename(id, corrupt, id)
}
