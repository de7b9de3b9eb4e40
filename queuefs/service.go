package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/journal"
	"cutie/queuefs/watch"
)

// Options are the settings of an open home. Zero values are the defaults.
type Options struct {
	Now     func() time.Time // nil means time.Now
	Report  func(Problem)    // called with damage found; nil: nobody is
	Segment int64            // octets of a journal segment, at most and by default 64 MiB
	Behind  int64            // octets the files may be behind the journal; 0 means 1 GiB
	Fault   durable.Fault    // for tests
}

// A Service is an open Cutie home (Cutie 0.3, 3.1). One process at a time has
// a home open. Its methods are safe for concurrent use.
type Service struct {
	opts  Options
	home  *durable.Dir
	temp  *durable.Dir // incoming payloads
	qdir  *durable.Dir
	ixdir *durable.Dir
	jdir  *durable.Dir
	lock  *os.File
	log   journal.Journal

	told struct {
		sync.Mutex
		of map[Problem]bool
	}

	inline  int           // payloads up to this travel in the journal
	most    int           // bytes of one append to the journal
	stopped chan struct{} // closed when the service closes or fails

	happened watch.Signal // in any queue

	mu      sync.RWMutex
	info    ServiceInfo
	queues  []*Queue
	byID    map[string]*Queue
	err     error // storage failed
	closing bool
	calls   sync.WaitGroup // changes on their way

	follower  Follower                 // followers, or nil
	upkeep    sync.Mutex               // held during a checkpoint
	set       sync.Mutex               // held while a queue is made, removed or changed
	keep      journal.LSN              // the journal from here on is for an absent follower
	past      journal.LSN              // replay begins here
	strays    map[string]index.Numbers // last numbers of vanished queues, not yet written; changed by upkeep and mu
	listWatch watched                  // queues.txt
	infoWatch watched                  // cutie-info.txt
	infoBase  string                   // baseURI as cutie-info.txt has it; by mu
	lastTime  time.Time                // of the last checkpoint
	seen      struct {                 // by the last call of Maintain
		at      time.Time
		written int64 // bytes of journal
	}
	lastMark atomic.Int64 // octets of journal at the last checkpoint
	doubt    atomic.Bool  // files may be in the cache alone: a sync has failed
	owed     atomic.Int64 // bytes of the reserve given up
	full     atomic.Bool  // files cannot be written, or the journal cannot grow, for lack of room
	headroom headroom
	dirty    atomic.Int64 // jobs with files behind the journal
	found    atomic.Int64 // such jobs at the opening, until the first checkpoint
}

// Open opens a home: it takes the lock, reads the index, replays the journal
// and then takes in moves by hand from the time nobody had it open. If another
// process has the home open the error is a [*LockedError].
func Open(dir string, o Options) (_ *Service, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Behind == 0 {
		o.Behind = 1 << 30
	}
	s := &Service{opts: o, byID: map[string]*Queue{}, stopped: make(chan struct{})}
	s.told.of = map[Problem]bool{}
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	if s.home, err = durable.OpenDir(dir, o.Fault); err != nil {
		return nil, err
	}
	if err := checkTag(s.home, s.report); err != nil {
		return nil, err
	}
	if s.lock, err = lockHome(dir); err != nil {
		return nil, err
	}
	stamp, changed, err := stampOf(s.home, infoName)
	if err != nil {
		return nil, err
	}
	data, err := s.home.ReadFile(infoName, nil, 1<<20)
	if err != nil {
		return nil, err
	}
	if s.info, err = parseServiceInfo(data); err != nil {
		return nil, fmt.Errorf("%s: %w", infoName, err)
	}
	s.infoWatch.read, s.infoBase, s.info.Modified = stamp, s.info.BaseURI, changed
	if err := s.openDirs(); err != nil {
		return nil, err
	}
	if err := s.sweepRemoved(); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.beginAgain(); err != nil {
		return nil, err
	}
	return s, nil
}

// lockHome takes the lock of a home and writes our process number in it.
func lockHome(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+lockName, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		var b [32]byte
		n, _ := f.ReadAt(b[:], 0)
		f.Close()
		if err != unix.EWOULDBLOCK {
			return nil, &fs.PathError{Op: "lock", Path: dir + "/" + lockName, Err: err}
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}

// openDirs opens the directories of the home and makes the program's own.
func (s *Service) openDirs() (err error) {
	if s.qdir, err = openQueues(s.home); err != nil {
		return err
	}
	if s.temp, err = s.home.MakeSub(tempName); err != nil {
		return err
	}
	log, err := s.home.MakeSub(logDir)
	if err != nil {
		return err
	}
	defer log.Close()
	if s.ixdir, err = log.MakeSub(indexDir); err != nil {
		return err
	}
	return nil
}

// openQueues opens the directory of the queues, and makes it if there is none
// under either name.
func openQueues(home *durable.Dir) (*durable.Dir, error) {
	d, err := home.Sub(queuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		if d, err = home.Sub(queuesOld); errors.Is(err, fs.ErrNotExist) {
			d, err = home.MakeSub(queuesDir)
		}
	}
	return d, err
}

// Dir returns the directory of the home.
func (s *Service) Dir() string { return s.home.Path() }

// Info returns the properties of the service.
func (s *Service) Info() ServiceInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.info
}

// SetBaseURI sets the beginning of references for as long as the service is
// open.
func (s *Service) SetBaseURI(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.BaseURI = uri
}

// Queues returns the queues in the order of queues.txt.
func (s *Service) Queues() []*Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.queues)
}

// Queue finds a queue by its cleaned identifier, the identifier as it was
// given, or its name. The error is [ErrNoQueue], or [ErrBadName] for an
// impossible name.
func (s *Service) Queue(name string) (*Queue, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if q := s.byID[name]; q != nil {
		return q, nil
	}
	for _, q := range s.queues {
		if i := q.Info(); i.Identifier == name || i.Name == name && name != "" {
			return q, nil
		}
	}
	id, err := CleanQueueID(name)
	if err != nil {
		return nil, err
	}
	if q := s.byID[id]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("%.60s: %w", name, ErrNoQueue)
}

func (s *Service) now() int64 { return s.opts.Now().UnixMicro() }

// maxReports is how many problems are remembered as told.
const maxReports = 10_000

// report reports a problem once: asking for a damaged job again and again must
// not fill the log.
func (s *Service) report(p Problem) {
	if s.opts.Report == nil {
		return
	}
	s.told.Lock()
	seen := s.told.of[p]
	if !seen && len(s.told.of) < maxReports {
		s.told.of[p] = true
	}
	s.told.Unlock()
	if !seen {
		s.opts.Report(p)
	}
}

// begin registers a change on its way; end must follow.
func (s *Service) begin() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usableLocked(); err != nil {
		return err
	}
	s.calls.Add(1)
	return nil
}

func (s *Service) end() { s.calls.Done() }

func (s *Service) usable() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.usableLocked()
}

func (s *Service) usableLocked() error {
	switch {
	case s.err != nil:
		return errors.Join(ErrFailed, s.err)
	case s.closing:
		return ErrClosed
	}
	return nil
}

// fail makes every later change an error: the contents of storage are unknown
// until the home is opened again.
func (s *Service) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		if !s.closing {
			close(s.stopped)
		}
	}
}

// Err returns why the service takes no more changes, or nil.
func (s *Service) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// Close ends the service: it waits for changes on their way, brings all files
// up to the journal, checkpoints, and lets go of the home.
func (s *Service) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	failed := s.err
	if failed == nil {
		close(s.stopped)
	}
	s.mu.Unlock()
	s.calls.Wait()
	err := s.Err()
	if err == nil {
		err = s.checkpoint(true)
	}
	return errors.Join(err, s.closeFiles())
}

// closeFiles closes everything that is open.
func (s *Service) closeFiles() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	for _, q := range s.queues {
		q.mu.Lock()
		q.idx.Free()
		q.mu.Unlock()
		q.tree.Close()
	}
	for _, d := range []*durable.Dir{s.home, s.temp, s.qdir, s.ixdir, s.jdir} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
