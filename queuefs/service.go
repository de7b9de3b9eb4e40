// Package queuefs is a Cutie home on a file system: queues of opaque jobs, in
// directories, first in, first out (UC3 Cutie 0.3).
//
// It promises, in this order: an acknowledged job is never lost; an event once
// seen stays true; cost grows with the change, not with the queue.
//
// Every event is one record in the journal (log/journal), and is done when the
// record is on stable storage. The record holds the whole new job file and, up to
// 128 KiB, the payload; a larger payload is synced in cutie-tmp before its record.
// Applying the record to the index makes the change visible. The files of the
// queue directory follow the journal; a reader through this package never sees the
// lag. A checkpoint makes files and index durable and releases the journal before
// it. The index is rows of log/table, and derived: without it, or for a damaged page of it,
// the directories are read.
//
// After a clean stop the directories rule: a job file moved by hand becomes an
// event when the home is opened. After a crash the journal rules. Files that cannot
// be understood are moved to corrupt/ and reported, never deleted.
//
// Submissions are refused with [ledger.ErrNoSpace] before the disk is full, so that
// checkpoints, consuming and culling go on.
//
// INTERNALS.md beside this file has the life of a job, the table of what a crash
// leaves, the order of locks, and where to change things.
package queuefs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
)

// Options are the settings of an open home. Zero values are the defaults.
type Options struct {
	Now        func() time.Time      // nil means time.Now
	Report     func(durable.Finding) // called with damage found; nil: nobody is
	Segment    int64                 // bytes of a journal segment, at most and by default 64 MiB
	Behind     int64                 // bytes the files may be behind the journal; 0 means 1.5 GiB
	KeepLog    int64                 // bytes of journal kept for followers that want earlier events; 0 means 256 MiB, less none
	Dirs       int                   // directories of queues kept open, those used last; 0 means 512
	Look       bool                  // change nothing, as for a check; of all methods those to read work
	AcceptLoss bool                  // open a home that was not closed and lacks its journal; else [ErrJournalLost]
	ReadAll    bool                  // read each queue-info.txt, even if the index knows its date
	Rebuild    bool                  // make the index again from the directories
	Making     bool                  // open a home that is being made of a copy; else [home.ErrMaking]
	Fault      durable.Fault         // for tests: of steps that write
	Reads      durable.Fault         // for tests: of steps that read, see package dir
	Stored     *stored.Options       // the home is in this store, and the directory is its cache; nil: it is in the directory
	PushTo     *stored.Options       // the home is in the directory, and is to move into this store by [Service.Push]
}

// A Service is an open Cutie home (Cutie 0.3, 3.1). One process at a time has
// a home open. Its methods are safe for concurrent use.
type Service struct {
	// Set while the home is opened, and not changed afterwards. What they point to has locks
	// of its own.
	opts      Options
	dirs      dirs
	unsettled bool // see Unsettled
	inOrder   bool // see ClosedInOrder
	lock      *home.Held
	index     *snapshot.Store
	shared    *ledger.Shared
	space     *diskSpace
	stored    *stored.Home // nil: the home is in its directory
	push      *stored.Push // nil: it stays where it is
	reports   *home.Reports
	layout    dir.Options // of all queues
	infoFiles func(d *durable.Dir, id string) home.File[home.QueueInfo]
	verified  durable.Verified // results with their digest

	// Each has its lock, from the outside in.
	upkeep     upkeep
	creating   durable.Together[*Queue]
	properties propertyFiles
	queues     openQueues
	known      known
}

// A Queue is a first-in-first-out set of jobs (Cutie 0.3, 3.2). Its methods are
// safe for concurrent use. Changes are on stable storage when a method returns,
// and before any method shows them.
type Queue struct {
	// Set when the queue is opened, and not changed afterwards. What they point to has locks
	// of its own.
	svc     *Service
	ledger  *ledger.Ledger // what is known of the jobs
	dir     *dir.Dir       // their directory
	content *content.Reader
	from    journal.LSN // for the opening: the index has the records before it

	infoFile home.File[home.QueueInfo] // queue-info.txt, by Service.properties
	asked    atomic.Bool               // since Reload looked at the properties

	// Each has its lock, from the outside in. That of the ledger comes after them, then those
	// of its recent jobs and of the log: none of these is held while a sync is waited for.
	original     replay.Original
	culling      sync.Mutex // held while jobs are chosen for culling and go
	destructions destructions
	tombstones   tombstones
	keyed        keyClaims // of requests with keys
	takes        keyTakes  // jobs that a repeated request gets again
}

// dirs are the open directories of a home.
type dirs struct {
	home, queues, journal *durable.Dir
	temp                  *durable.Dir // uploads
}

// An upkeep is the state of checkpoints. Its lock is held during one, and during
// changes that must not happen then: a queue goes, or comes back under the name of a
// former one.
type upkeep struct {
	sync.Mutex // of all fields

	follower Follower    // or nil
	keep     journal.LSN // the journal from here on is for an absent follower
	past     journal.LSN // replay begins here
	last     time.Time   // of the last checkpoint
}

// propertyFiles are the files for operators to edit. Their lock is held while a queue is
// made, removed or changed.
type propertyFiles struct {
	sync.Mutex // of all fields

	list    *home.File[[]string]         // queues.txt
	service *home.File[home.ServiceInfo] // cutie-info.txt
	bad     string                       // why the copy of it holds; "" if the file does

	lines home.Lines // of queues.txt, too
}

// highest returns the highest numbers of all open queues.
func (s *Service) highest() (last index.Numbers) {
	for _, q := range s.Queues() {
		last = last.Max(q.ledger.Numbers())
	}
	return last
}

// Dir returns the directory of the home.
func (s *Service) Dir() string { return s.dirs.home.Path() }

// Err returns why the service takes no more changes, or nil.
func (s *Service) Err() error { return s.shared.Gate.Err() }

// HasSpace reports whether the disk has so many bytes beyond the needs of the
// queues.
func (s *Service) HasSpace(bytes int64) bool { return s.space.Has(bytes) }

// Behind returns how many jobs have files behind the journal, after Close too.
func (s *Service) Behind() int { return int(s.shared.Behind.Load()) }

// Unread returns how many pending jobs consumers pass over, because they cannot be read
// now.
func (s *Service) Unread() int { return int(s.shared.Resting.Load()) }

// Full reports whether files could not be written for lack of space; submissions are
// refused then.
func (s *Service) Full() bool { return s.space.Full() }

// Calm reports whether the journal hardly grows: then there is time for work nobody waits for.
// It looks at what [Service.Maintain] saw last, and at the journal since.
func (s *Service) Calm() bool { return s.space.Calm() }

// JournalSyncs returns how often the journal was synced since the service was
// opened, and how long that took.
func (s *Service) JournalSyncs() journal.Syncs { return s.shared.Journal.Stats().Syncs }

// IndexSize returns the memory of the index, in bytes.
func (s *Service) IndexSize() (size int64) {
	for _, q := range s.Queues() {
		q.ledger.Look(func(x *index.Index) { size += x.Memory() })
	}
	return size
}

// Wait returns once more has happened than the given count says: an event of any
// queue, or a queue came or went. It returns the new count, to be given to the
// next call. With 0 it returns at once.
func (s *Service) Wait(ctx context.Context, after uint64) (count uint64, err error) {
	return s.shared.Wait(ctx, after)
}

// begin registers a change on its way; end must follow.
func (s *Service) begin() error { return s.shared.Gate.Enter() }

// beginChange is begin for a change of the home, which no standby makes.
func (s *Service) beginChange() error {
	if s.Standby() {
		return journal.ErrFollowing
	}
	return s.begin()
}

func (s *Service) end() { s.shared.Gate.Leave() }

func (s *Service) usable() error { return s.shared.Gate.Usable() }

// Standby reports whether another process owns the home.
func (s *Service) Standby() bool { return s.stored.Following() }

// Coming reports whether the published documents of a home in a store are still on their way
// into the directory, see [stored.Options].Early.
func (s *Service) Coming() bool { return s.stored.Coming() }

// now is the time in µs since 1970.
func (s *Service) now() int64 { return s.shared.Micro() }

// behind gives an error its meaning for callers.
func behind(err error) error {
	if errors.Is(err, journal.ErrReleased) {
		err = fmt.Errorf("%w: %w", ErrBehind, err)
	}
	return err
}

// report reports damage of a file below the home.
func (s *Service) report(path, text string) { s.reports.Add(durable.Finding{Path: path, Text: text}) }

// The known are the properties of the service, and what is left of queues.
type known struct {
	mu     sync.RWMutex
	info   home.ServiceInfo
	base   string                   // baseURI as cutie-info.txt has it
	strays map[string]index.Numbers // last numbers of queues that vanished, not yet in the index
	lost   map[string]*lostQueue    // by cleaned identifier

	mirrors map[string]*home.Mirror // by Service.properties
}

// Subscriptions are the rows of the hub in the table of the home.
func (s *Service) Subscriptions() table.Rows { return s.index.Table.Rows(table.Subscriptions) }

// Info returns the properties of the service.
func (s *Service) Info() home.ServiceInfo {
	s.known.mu.RLock()
	defer s.known.mu.RUnlock()
	return s.known.info
}

// SetBaseURI sets the beginning of references for as long as the service is
// open.
func (s *Service) SetBaseURI(uri string) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.known.info.BaseURI = uri
}

// Queues returns the queues in the order of queues.txt. The result is not to be changed.
func (s *Service) Queues() []*Queue { return s.queues.All() }

// Changed returns the queues that have changed after the given count, by events,
// settings, or because they are new, and the count for the next call. With 0 it returns
// all. A queue that goes is not a change.
func (s *Service) Changed(after uint64) (queues []*Queue, now uint64) {
	some, now := s.shared.Since(after)
	if after == 0 {
		return s.Queues(), now
	}
	return s.of(some), now
}

// of returns the open queues of ledgers.
func (s *Service) of(some []*ledger.Ledger) []*Queue {
	queues := make([]*Queue, 0, len(some))
	for _, l := range some {
		if q := s.open(l.ID()); q != nil && q.ledger == l {
			queues = append(queues, q)
		}
	}
	return queues
}

// Queue finds a queue by its cleaned identifier, the identifier as it was
// given, or its name. Another identifier with the same cleaned form is another queue,
// although there can be only one of them. The error is [ledger.ErrNoQueue], or [job.ErrBadName]
// for an impossible name.
func (s *Service) Queue(name string) (*Queue, error) {
	q := s.open(name)
	if q == nil {
		q = s.queues.ByName(name)
	}
	if q != nil {
		s.ask(q)
		return q, nil
	}
	id, err := job.CleanQueueID(name)
	if err != nil {
		return nil, err
	}
	if err := s.lostError(id); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%.60s: %w", name, ledger.ErrNoQueue)
}

// ask lets the next Reload look at the properties of a queue.
func (s *Service) ask(q *Queue) {
	if !q.asked.Load() && !q.asked.Swap(true) {
		s.queues.First(q)
	}
}

// open returns the open queue of a cleaned identifier, or nil.
func (s *Service) open(id string) *Queue { return s.queues.ByID(id) }

// add serves a queue.
func (s *Service) add(q *Queue) {
	s.queues.Add(q)
	q.ledger.Touch()
	q.ledger.Wake()
	s.shared.Happened.Raise()
}

// drop removes a sealed queue from memory.
func (s *Service) drop(q *Queue) {
	s.queues.Drop(q)
	q.ledger.End()
	s.shared.Happened.Raise()
	q.dir.Close()
}

// Errors for callers to branch on. Every error of this package with one of these
// meanings wraps it.
var (
	ErrQueueExists  = errors.New("queue exists already")
	ErrRefusing     = errors.New("queue refuses submissions")
	ErrNotLost      = errors.New("the directory of the queue is not lost")
	ErrLease        = errors.New("lease is gone")
	ErrResultExists = errors.New("result exists already")
	ErrKeyUsed      = errors.New("key was used before")
	ErrKeyBusy      = errors.New("another request with this key is on its way")
	ErrJournalLost  = errors.New(lostJournal)
	ErrInfo         = errors.New("properties of the service damaged") // without a copy
	ErrAlive        = errors.New("the home has an owner that is alive")
	ErrBehind       = errors.New("the standby has fallen behind the beginning of the journal")
)

// lostJournal is damage that nothing can make good.
const lostJournal = "the home was not closed, and its journal is lost or ends before the last checkpoint, so acknowledged changes are missing"

// errTableOld: records between the checkpoint and the journal are missing.
var errTableOld = errors.New("it is older than the beginning of the journal, as one from a copy; " +
	"move it away, and start again: it is made again from the directories and the journal")

// errStale: the directory of a home in a store lacks changes of the journal. It is made
// again.
var errStale = errors.New("the directory is older than the journal")

var errUnstored = errors.New("the home is in no object store")

// errImage: an image has what its maker had.
var errImage = errors.New("the index in the image was damaged when the image was made; the directory of its owner, or the image before, may have it whole")

// errLook is the error of changes in a home opened with [Options.Look].
var errLook = errors.New("home opened for reading")

// A Follower derives something from the events of all queues: the publisher derives
// documents, callbacks derive messages. The engine calls its followers in turn around each
// checkpoint, and when a queue goes. It keeps a record until all of them have it on stable
// storage.
//
// Flush brings it up to the last event, as files that need not be synced; Synced is called
// when they are on stable storage, and then the journal up to there may be released.
type Follower interface {
	Flush() error
	Synced() error
}

// A Holder is a [Follower] that wants events again that it has on stable storage, to read their
// records. Holds returns the first event of a queue that it wants, 0 for none. The journal
// has these events as long as it takes no more than Options.KeepLog.
type Holder interface {
	Holds(queue string) job.Seq
}

// A Forgetter is a [Follower] with something for each queue. Forget is called
// after a queue was removed, and before one of the same name is made:
// everything known under the name is of another queue. It may be called again,
// and never during Flush or Synced.
type Forgetter interface {
	Forget(queue string) error
}

// followers are several followers as one, called in turn.
type followers []Follower

// Flush calls each in turn, up to the first error; so does Synced.
func (fs followers) Flush() error {
	for _, f := range fs {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Holds implements [Holder].
func (fs followers) Holds(queue string) (first job.Seq) {
	for _, f := range fs {
		if h, ok := f.(Holder); ok {
			if seq := h.Holds(queue); seq > 0 && (first == 0 || seq < first) {
				first = seq
			}
		}
	}
	return first
}

// Synced is as Flush.
func (fs followers) Synced() error {
	for _, f := range fs {
		if err := f.Synced(); err != nil {
			return err
		}
	}
	return nil
}

// Forget calls the [Forgetter]s.
func (fs followers) Forget(queue string) error {
	for _, f := range fs {
		if f, ok := f.(Forgetter); ok {
			if err := f.Forget(queue); err != nil {
				return err
			}
		}
	}
	return nil
}
