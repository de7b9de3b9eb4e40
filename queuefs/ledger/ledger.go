// Package ledger is one queue as a state machine over the journal: a change
// appends records, a durable record is applied to the index, and callers waiting
// for it wake. It writes no file.
//
//	Commit ── build ──▶ records ── append ──▶ journal
//	                                             │ durable
//	Look ◀── index ◀── apply ◀───────────────────┘
//	                     ├─▶ backlog   jobs whose files are behind
//	                     └─▶ watch, line   waiting callers and consumers
//
// A [Ledger] is safe for concurrent use. Its lock guards the index and all beside
// it, and is never held while storage works. Replay runs the same apply as normal
// use does.
//
// [Shared] is what the ledgers of a home have in common; its [Gate] counts the calls
// on their way, and ends them when the home closes or its storage fails.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/table"
	"cutie/queuefs/watch"
)

// Shared is what the ledgers of a home have in common.
type Shared struct {
	Gate      *Gate
	Now       func() time.Time
	Journal   journal.Journal // set before the first Commit
	Inline    int             // bytes up to which a payload travels in the journal
	MaxAppend int             // bytes of one append to the journal, at most
	Behind    atomic.Int64    // jobs of all queues whose files are behind the journal
	Resting   atomic.Int64    // jobs of all queues that cannot be read now
	Shut      atomic.Int64    // queues whose queue-info.txt cannot be read now
	Happened  watch.Signal    // raised by each change of any queue

	ahead          ahead
	recent         recent
	unfiled, timed awake
}

// Micro is the time in µs since 1970.
func (s *Shared) Micro() int64 { return s.Now().UnixMicro() }

// A Ledger has all that is known of a queue. Make one with [New].
type Ledger struct {
	id     string
	shared *Shared
	set    atomic.Pointer[home.Settings] // in force; changed with mu held
	turn   turn                          // by shared.recent

	mu      sync.RWMutex // guards all below
	idx     *index.Index
	life    life
	pending []*change // on their way to the journal, in order
	backlog backlog
	watch   watch.Watch
	line    line
	rests   map[job.ID]*rest // jobs that could not be read
}

// A life has the beginning of a queue, after former ones of its name, and its end.
type life struct {
	since  journal.LSN // records before are of a former queue
	before job.Seq     // last event of a former queue
	gone   bool        // removed
	mirror bool        // of another home, and not yet live

	settings *string // queue-info.txt of its last event in the journal, when replayed; nil: not there
}

// New returns the ledger of a queue without jobs. Use must follow.
func New(id string, shared *Shared) *Ledger {
	return &Ledger{id: id, shared: shared, idx: index.New(id)}
}

// Now is [Shared.Micro].
func (l *Ledger) Now() int64 { return l.shared.Micro() }

// ID returns the cleaned identifier of the queue.
func (l *Ledger) ID() string { return l.id }

// Look shows the index for reading. do must not wait, and of the methods of the ledger
// it may call Settings and Giving only.
func (l *Ledger) Look(do func(x *index.Index)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	do(l.idx)
}

// Note changes facts in the index that no record has, such as where files stand. do
// is as for Look.
func (l *Ledger) Note(do func(x *index.Index)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l.idx)
}

// Vacates reports whether pages may have become vacant, see [index.Index.Vacate].
func (l *Ledger) Vacates() (so bool) {
	l.Look(func(x *index.Index) { so = x.Vacates() })
	return so
}

// Settings returns the settings in force, not to be changed.
func (l *Ledger) Settings() *home.Settings { return l.set.Load() }

// Use puts settings in force, and serves consumers at the end of a pause.
func (l *Ledger) Use(s *home.Settings) {
	l.mu.Lock()
	was := l.use(s)
	l.serve()
	l.mu.Unlock()
	if was != nil {
		l.Touch()
	}
}

// use puts settings in force; mu is held.
func (l *Ledger) use(s *home.Settings) (was *home.Settings) {
	was = l.set.Swap(s)
	l.shared.Shut.Add(shut(s) - shut(was))
	return was
}

func shut(s *home.Settings) int64 {
	if s != nil && s.Unread != nil {
		return 1
	}
	return 0
}

// A View is a consistent copy of all that is known of a job.
type View struct {
	index.Job
	Temp string // temporary file of a large payload without its name yet; ""
}

// View returns what is known of a job; false if there is no such job.
func (l *Ledger) View(id job.ID) (v View, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if v.Job, ok = l.idx.Job(id); ok {
		v.Temp = l.backlog.temps[id]
	}
	return v, ok
}

// Status returns the status of a job and the time of its last change in µs; zeros
// without a job.
func (l *Ledger) Status(id job.ID) (job.Status, int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.idx.Status(id)
}

// Begin sets the beginning of the queue: the last event of former queues of its name,
// and the first record of its own.
func (l *Ledger) Begin(since journal.LSN, before job.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life.since, l.life.before = since, before
}

// Replayed returns the queue-info.txt of its last event in the journal, when the home was
// opened; nil if the journal has none.
func (l *Ledger) Replayed() []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.life.settings == nil {
		return nil
	}
	return []byte(*l.life.settings)
}

// Since returns the first record that can be of this queue.
func (l *Ledger) Since() journal.LSN {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.since
}

// Before returns the last event of former queues of the name, 0 without one.
func (l *Ledger) Before() job.Seq {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.before
}

// Mirrored reports whether the queue is a mirror, as far as the index knows.
func (l *Ledger) Mirrored() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.mirror
}

// SetMirrored says whether the queue is a mirror; the next checkpoint writes it.
func (l *Ledger) SetMirrored(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life.mirror = yes
}

// Seal ends all events of a queue without jobs. The error is [ErrNotEmpty] if it has
// some, or that of ctx.
func (l *Ledger) Seal(ctx context.Context) error {
	for {
		if err := l.shared.Gate.Usable(); err != nil {
			return err
		}
		l.mu.Lock()
		if err := l.bare(); err != nil {
			l.mu.Unlock()
			return err
		}
		if l.idx.Minted().Seq == l.idx.Last().Seq {
			l.life.gone = true
			l.mu.Unlock()
			return nil
		}
		if err := l.sleep(ctx, 0); err != nil { // an event is on its way
			return err
		}
	}
}

// Bare returns [ErrNotEmpty] if the queue has jobs.
func (l *Ledger) Bare() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bare()
}

func (l *Ledger) bare() error {
	if n := l.idx.Counts.Total(); n > 0 {
		return fmt.Errorf("%s: %w: it has %d jobs", l.id, ErrNotEmpty, n)
	}
	return nil
}

// Unseal takes Seal back.
func (l *Ledger) Unseal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life.gone = false
}

// noQueue is the error for a removed queue.
func (l *Ledger) noQueue() error { return fmt.Errorf("%s: %w", l.id, ErrNoQueue) }

// NoJob is the error for a job outside of the index; a closed home has no index.
func (l *Ledger) NoJob() error {
	if err := l.shared.Gate.Usable(); errors.Is(err, ErrClosed) {
		return err
	}
	return ErrNoJob
}

// End wakes all waiting callers of a removed queue, and frees the index.
func (l *Ledger) End() {
	l.mu.Lock()
	l.line.close()
	l.watch.WakeAll()
	l.shared.Shut.Add(-shut(l.Settings()))
	l.mu.Unlock()
	l.leave()
	l.Free()
}

// Free gives back the memory of the index; nothing is known then. Of a home that closes
// the jobs behind stay counted.
func (l *Ledger) Free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(l.shared.Gate.Usable(), ErrClosed) {
		l.count(-l.backlog.behind)
	}
	l.backlog = backlog{}
	for id := range l.rests {
		l.forget(id)
	}
	l.idx.Free()
}

// Errors for callers to branch on.
var (
	ErrNoQueue  = errors.New("queue not found")
	ErrNotEmpty = errors.New("queue not empty")
	ErrNoJob    = errors.New("job not found")
	ErrEmpty    = errors.New("queue empty")
	ErrGone     = errors.New("events no longer in the journal")
	ErrNoSpace  = errors.New("no space left for the queue")
	ErrFailed   = errors.New("storage failed, open the home again")
	ErrClosed   = errors.New("service closed")
)

// A ReserveError is the error of [Ledger.Commit] when the journal found no storage
// for the records. Nothing has happened; Commit may be called again.
type ReserveError struct{ Err error }

func (e *ReserveError) Error() string { return e.Err.Error() }
func (e *ReserveError) Unwrap() error { return e.Err }

// StorageError gives the error of a failed step its meaning for callers: it joins
// ErrFailed, ErrNoSpace, [job.ErrTooBig] or ErrClosed to it.
func StorageError(err error) error {
	switch {
	case errors.Is(err, journal.ErrFailed), errors.Is(err, journal.ErrFenced), errors.Is(err, table.ErrFailed):
		return errors.Join(ErrFailed, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errors.Join(ErrNoSpace, err)
	case errors.Is(err, journal.ErrTooLarge):
		return errors.Join(job.ErrTooBig, err)
	case errors.Is(err, fs.ErrClosed), errors.Is(err, journal.ErrClosed):
		return errors.Join(ErrClosed, err)
	}
	return err
}

// A State is the state of a queue at one instant (Cutie 0.3, 3.2).
type State struct {
	Info                       home.QueueInfo
	Pending, Consumed, Deleted int64
	Held                       int64         // pending ones on hold
	Leased                     int64         // consumed ones in work
	Failed                     int64         // with this outcome
	Seq                        job.Seq       // of the last event; without one, Before
	Before                     job.Seq       // last event of former queues of the name, 0 if there was none
	LastEvent                  time.Time     // of creation before the first event
	LastSubmission             time.Time     // zero if never
	LastConsumption            time.Time     // zero if never
	Damage                     string        // why Info differs from queue-info.txt; "" if it does not
	Shut                       bool          // queue-info.txt cannot be read; then Damage says why
	Oldest                     time.Time     // submission of the job at the head; zero if no job can be taken
	Since                      time.Time     // when the events known begin, of a mirror; zero: with the creation
	Mirror                     *home.Mirror  // nil: the queue never was a mirror
	Progress                   home.Progress // of a mirror
}

// State returns the state of the queue, from memory.
func (l *Ledger) State() (s State) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	set, n, last := l.Settings(), &l.idx.Counts, l.idx.Last()
	s = State{Info: set.Info(), Pending: n.Status[job.Pending], Consumed: n.Status[job.Consumed], Deleted: n.Status[job.Deleted],
		Held: n.Held, Leased: n.Leased, Failed: n.Failed, Seq: last.Seq, Before: l.life.before, Damage: set.Bad, Shut: set.Unread != nil, LastEvent: job.Instant(last.Time),
		LastSubmission: instantOrZero(l.idx.LastSubmit), LastConsumption: instantOrZero(l.idx.LastConsume)}
	if j, ok := l.idx.Job(l.idx.First()); ok {
		s.Oldest = job.Instant(j.Submitted)
	}
	return s
}

func instantOrZero(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return job.Instant(us)
}

// An Entry has the facts of a job for a publisher.
type Entry struct {
	Job     job.ID
	Status  job.Status
	Payload job.Facts
	File    job.Facts

	HasResults bool
	Results    []job.Result // in job files alone
}

// FileFacts returns the facts of the job file of a job.
func FileFacts(j *index.Job) job.Facts {
	return job.Facts{Length: int64(j.FileLength), SHA256: j.FileSHA256, Type: job.FileType, Modified: job.Instant(j.Changed)}
}

func entryOf(id job.ID, j *index.Job) Entry {
	return Entry{Job: id, Status: j.Status, HasResults: j.Results, File: FileFacts(j), Payload: job.Facts{Length: j.Size,
		SHA256: j.SHA256, MD5: j.MD5, Type: cmp.Or(j.MediaType, job.DefaultMediaType), Modified: job.Instant(j.Submitted)}}
}

// Entry returns the facts of one job, without results; false if there is no such job.
func (l *Ledger) Entry(id job.ID) (e Entry, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	j, ok := l.idx.Job(id)
	if ok {
		e = entryOf(id, &j)
	}
	return e, ok
}

// Page appends the jobs of page n to dst, in order and without results, and returns the
// last event of the page, 0 for none, with its time. All of it is of one instant.
func (l *Ledger) Page(n int, dst []Entry) (entries []Entry, version job.Seq, at time.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.idx.Page(n)
	dst = slices.Grow(dst, p.Total)
	l.idx.EachOf(n, func(id job.ID, j index.Job) { dst = append(dst, entryOf(id, &j)) })
	return dst, p.Version, instantOrZero(p.At)
}

// PageVersion returns the last event of page n, its time, and how many jobs the
// page has, without visiting them.
func (l *Ledger) PageVersion(n int) (version job.Seq, at time.Time, pending, total int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.idx.Page(n)
	return p.Version, instantOrZero(p.At), p.Pending, p.Total
}

// Snapshot returns the row of the queue, for a checkpoint at a
// record.
func (l *Ledger) Snapshot(at journal.LSN) table.Queue {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.set.Load()
	x := table.Queue{Last: l.idx.Last(), Submitted: l.idx.LastSubmit, Consumed: l.idx.LastConsume, Created: s.Created().UnixMicro(),
		Types: l.idx.MediaTypes(), Info: l.idx.Info, At: at, Since: l.life.since, Before: l.life.before, Mirror: l.life.mirror}
	x.Pages, _ = l.idx.Held()
	if !s.Made {
		x.Settings, x.Stamp = s.Text, s.Stamp()
	}
	return x
}

// Load takes in the row of the queue, when a home is opened. The numbers never go
// back, whatever becomes of the pages.
func (l *Ledger) Load(q *table.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.idx
	x.SetMediaTypes(q.Types)
	x.Reach(q.Last)
	x.LastSubmit, x.LastConsume, x.Info = q.Submitted, q.Consumed, q.Info
	l.life = life{since: q.Since, before: q.Before, mirror: q.Mirror}
}

// Numbers returns the last numbers of jobs and events given out.
func (l *Ledger) Numbers() index.Numbers {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := l.idx.Minted()
	return index.Numbers{Job: n.Job, Seq: n.Seq}
}
