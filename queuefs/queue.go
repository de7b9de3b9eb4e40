package queuefs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
)

// close lets go of the queue.
func (q *Queue) close() {
	q.ledger.Free()
	q.dir.Close()
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.ledger.ID() }

// Names are the identifier as it was given, and the name.
func (q *Queue) Names() [2]string { return q.ledger.Settings().Names() }

// Info returns the properties of the queue.
func (q *Queue) Info() home.QueueInfo { return q.ledger.Settings().Info() }

// Callback returns the URL to be told of changes, "" if there is none, or of a mirror: its
// original tells. Info has scheme and host of it: the rest is a secret.
func (q *Queue) Callback() (string, error) {
	if q.Mirror().Live() {
		return "", nil
	}
	return q.svc.index.Table.Callback(q.ID(), q.info().Callback)
}

// Original is the queue of another home mirrored by this one, now or once.
func (q *Queue) Original() *replay.Original { return &q.original }

// Mirror is as [replay.Original.Mirror].
func (q *Queue) Mirror() *home.Mirror { return q.original.Mirror() }

// info is Info without names and time.
func (q *Queue) info() home.QueueInfo { return q.ledger.Settings().Rules() }

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, job.Facts) {
	s := q.ledger.Settings()
	return s.Text, s.Facts()
}

// State returns the state of the queue.
func (q *Queue) State() ledger.State {
	s := q.ledger.State()
	if s.Mirror = q.Mirror(); s.Mirror != nil {
		s.Since = s.Mirror.At
	}
	if s.Mirror.Live() {
		s.Progress = q.original.Progress()
	}
	return s
}

// Unfinished returns up to max consumed jobs out of work and without an outcome. In a
// queue without reports there is none: a job handed out is done.
func (q *Queue) Unfinished(max int) (ids []job.ID) {
	if q.info().Acknowledge != job.AckNone {
		q.ledger.Look(func(x *index.Index) { ids = x.Unfinished(max) })
	}
	return ids
}

// Status returns the status of a job and its last change; 0 if there is no such job.
func (q *Queue) Status(id job.ID) (job.Status, time.Time) {
	if st, at := q.ledger.Status(id); st != 0 {
		return st, job.Instant(at)
	}
	return 0, time.Time{}
}

// IDs returns identifiers of jobs in FIFO order.
func (q *Queue) IDs(o index.Filter) (ids []job.ID) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.ledger.Look(func(x *index.Index) { ids = x.IDs(o) })
	return ids
}

// Flow returns how many jobs became pending, left, and failed since the queue was opened.
func (q *Queue) Flow() (f index.Flow) {
	q.ledger.Look(func(x *index.Index) { f = x.Flow })
	return f
}

// Latest returns jobs of o before one, the newest first, or the newest of all with
// before 0. It looks at no more jobs than most, and returns the job to go on before, or
// 0 at the end of the queue. The After of o does not count.
func (q *Queue) Latest(o index.Filter, before job.ID, most int) (ids []job.ID, reached job.ID) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.ledger.Look(func(x *index.Index) { ids, reached = x.Latest(o, before, most) })
	return ids, reached
}

// Leased returns the jobs on lease, in no order.
func (q *Queue) Leased() (ids []job.ID) {
	q.ledger.Look(func(x *index.Index) { ids = x.Leases.Jobs() })
	return ids
}

// Entry returns the facts of one job for a publisher; false if there is no such job.
func (q *Queue) Entry(id job.ID) (ledger.Entry, bool) { return q.ledger.Entry(id) }

// Pages returns how many pages of PageJobs job numbers the queue has had.
func (q *Queue) Pages() (n int) {
	q.ledger.Look(func(x *index.Index) { n = x.Pages() })
	return n
}

// Page is as [ledger.Ledger.Page].
func (q *Queue) Page(n int, dst []ledger.Entry) (entries []ledger.Entry, version job.Seq, at time.Time) {
	return q.ledger.Page(n, dst)
}

// PageVersion is as [ledger.Ledger.PageVersion].
func (q *Queue) PageVersion(n int) (version job.Seq, at time.Time, pending, total int) {
	return q.ledger.PageVersion(n)
}

// AddResults is as [content.Reader.AddResults].
func (q *Queue) AddResults(entries []ledger.Entry) { q.content.AddResults(entries) }

// A queue is shut while its queue-info.txt cannot be read since the home was opened. Its
// events and files stay as they are, and nothing is written in the place of the file.
// The other queues are served. Reload opens the queue once the file can be read.

// Shut returns a [*ShutError] if the queue is shut, else nil.
func (q *Queue) Shut() error {
	if why := q.ledger.Settings().Unread; why != nil {
		return &content.ShutError{Queue: q.ID(), Err: why}
	}
	return nil
}

// Ask finds a queue for a request, as [Service.Queue] does. The error is a [*ShutError]
// if the queue is shut.
func (s *Service) Ask(name string) (*Queue, error) {
	q, err := s.Queue(name)
	if err == nil {
		err = q.Shut()
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Timed returns the queues with leases, holds or destructions of jobs, in no order.
// Queues that are shut, and mirrors, have none.
func (s *Service) Timed() []*Queue {
	return slices.DeleteFunc(s.of(s.shared.Timed()), func(q *Queue) bool { return q.Shut() != nil || q.Mirror().Live() })
}

// Shut returns how many queues are shut.
func (s *Service) Shut() int { return int(s.shared.Shut.Load()) }

// reopen reads the properties of a queue that is shut, and reports whether it is open now.
// The caller holds properties.
func (q *Queue) reopen() bool {
	n, err := q.knownSettings(q.svc.index.File(q.ID()), false)
	if err != nil || n.Unread != nil {
		return false // tried again at the next call
	}
	q.infoFile.Take(n.Reading)
	q.ledger.Use(n)
	if err := q.replayedSettings(); err != nil {
		q.svc.report(home.QueueInfoPath(q.ID()), err.Error())
	}
	_ = q.announceSettings() // tried again at the next call
	q.svc.queues.Renamed()
	q.ledger.Touch()
	q.ledger.Wake()
	q.svc.shared.Happened.Raise()
	return true
}

// Job returns a job of any status. The error is [ledger.ErrNoJob] if there is none. If
// other hands have lost or damaged its file, the job has the facts in the
// index.
func (q *Queue) Job(id job.ID) (job.Job, error) { return q.content.Job(id) }

// JobFile returns the exact octets of the job file if the job stands in st,
// else [ledger.ErrNoJob].
func (q *Queue) JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error) {
	return q.content.JobFile(id, st)
}

// Payload opens the payload of a job of any status.
func (q *Queue) Payload(id job.ID) (*dir.Payload, error) { return q.content.Payload(id) }

// A Pass reads jobs of a queue in their order, as Queue does; see [content.Pass].
type Pass interface {
	JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error)
	Payload(id job.ID) (*dir.Payload, error)
}

// Pass returns a new one.
func (q *Queue) Pass() Pass { return q.content.Pass() }

// Result opens a result of a job, to be closed after use. The error is
// [content.ErrNoResult] if the job has none of the name.
func (q *Queue) Result(id job.ID, name string) (job.Result, *dir.Payload, error) {
	return q.content.Result(id, name)
}

// maxPeeks is how often Peek looks for another head of the queue.
const maxPeeks = 100

// Peek returns the job at the head of the queue and leaves it there (Cutie 0.3,
// 5.7). If all pending jobs are on hold, or there is none, the error is
// [ledger.ErrEmpty].
func (q *Queue) Peek() (job.Job, error) {
	for range maxPeeks {
		var id job.ID
		q.ledger.Look(func(x *index.Index) { id = x.Head() })
		if id == 0 {
			break
		}
		j, err := q.Job(id)
		if err == nil && j.Status == job.Pending {
			return j, nil
		}
		if err != nil && !errors.Is(err, ledger.ErrNoJob) {
			return job.Job{}, err
		}
	}
	return job.Job{}, ledger.ErrEmpty
}

// Sound returns why a job is not to be handed out: its payload is lost, or does not have its
// digest. Payloads of a mebibyte and more are compared if the queue verifies on read (Cutie
// 0.3, 3.2).
func (q *Queue) Sound(id job.ID) error { return q.content.Sound(id, q.info().VerifyOnRead) }

// Listed is Job for a list: a job whose file cannot be read now has the facts in the index,
// and its element note says why it is unreadable.
func (q *Queue) Listed(id job.ID) (job.Job, error) {
	j, err := q.Job(id)
	if unread, ok := errors.AsType[*content.UnreadError](err); ok {
		return q.content.Unread(id, unread.Err)
	}
	return j, err
}

// List returns jobs in FIFO order. It reads a job file for each, as Listed does.
func (q *Queue) List(o index.Filter) ([]job.Job, error) {
	ids := q.IDs(o)
	jobs := make([]job.Job, 0, len(ids))
	for _, id := range ids {
		j, err := q.Listed(id)
		if errors.Is(err, ledger.ErrNoJob) {
			continue
		}
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// Seq returns the number of the last event, 0 before the first.
func (q *Queue) Seq() job.Seq { return q.ledger.Last() }

// Events returns the events after the given one, oldest first, at most max of
// them (1000 if max is 0). They are read from the journal. If it does not reach
// back that far the error is [ledger.ErrGone].
func (q *Queue) Events(after job.Seq, max int) ([]job.Event, error) {
	if max <= 0 {
		max = 1000
	}
	return q.ledger.Events(after, max)
}

// Journaled is as [Queue.Events], with the parts of events in the journal: up to size
// bytes of them, but at least one event.
func (q *Queue) Journaled(after job.Seq, max, size int) ([]ledger.Journaled, error) {
	return q.ledger.Journaled(after, max, size)
}

// Wait returns nil once the queue has an event after the given one. If it is
// removed meanwhile the error is [ledger.ErrNoQueue].
func (q *Queue) Wait(ctx context.Context, after job.Seq) error { return q.ledger.Wait(ctx, after) }

// WaitJob returns nil once the job has an event after the given time, the one
// from [Queue.Status]. If the job is culled meanwhile the error is [ledger.ErrNoJob], if
// the queue is removed [ledger.ErrNoQueue].
func (q *Queue) WaitJob(ctx context.Context, id job.ID, after time.Time) error {
	return q.ledger.WaitJob(ctx, id, after)
}

// Tombstones returns the jobs culled after since, in the order of their events, at
// most limit of them: 0 means 1000, and 10,000 is the most. They are kept for
// [home.ServiceInfo].TombstoneAge. The time of the last one is the since of the next
// call.
func (q *Queue) Tombstones(since time.Time, limit int) ([]Tombstone, error) {
	if kept := q.svc.tombstonesSince(); since.Before(kept) {
		since = kept
	}
	found, err := q.tombstones.Dated(since, limit)
	if err != nil {
		return nil, fmt.Errorf("queue %s: tombstones: %w", q.ID(), err)
	}
	return found, nil
}

// openQueues has the queues of a home by identifier and by name, and in their order. A
// queue that is being made has its names already, and is not found yet. The zero value is
// ready, and safe for concurrent use.
type openQueues struct {
	mu     sync.RWMutex
	all    []*Queue // grows at its end; otherwise it is replaced, for others read it
	byID   map[string]*Queue
	byName map[string]*Queue // by names other than the cleaned identifier; nil: to be made
	coming map[string]*Queue // being made, by cleaned identifier
	first  []*Queue          // see First
	turn   int               // in all, see Turn
}

// First lets the next Turn begin with a queue.
func (r *openQueues) First(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = append(r.first, q)
}

// Turn returns the queues of First and the next n ones in turn, or all if there are no
// more than n.
func (r *openQueues) Turn(n int) (some []*Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.first {
		if r.byID[q.ID()] == q { // still open
			some = append(some, q)
		}
	}
	r.first = nil
	if len(r.all) <= n {
		return slices.Clip(r.all)
	}
	for range n {
		r.turn = (r.turn + 1) % len(r.all)
		some = append(some, r.all[r.turn])
	}
	return some
}

// All returns the open queues in their order. The result is not to be changed.
func (r *openQueues) All() []*Queue {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clip(r.all)
}

// ByID returns the open queue with a cleaned identifier, or nil.
func (r *openQueues) ByID(id string) *Queue {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

// ByName returns the first open queue with one of its [Queue.Names], or nil.
func (r *openQueues) ByName(name string) *Queue {
	named := r.called(name)
	if named != nil && r.ByID(named.ID()) == named {
		return named
	}
	return nil // it is being made, or nobody is called so
}

// Free returns [ErrQueueExists] if a queue other than q has the name, or is being made
// with it.
func (r *openQueues) Free(name string, q *Queue) error {
	if name == "" {
		return nil
	}
	first := r.called(name)
	others := []*Queue{r.ByID(name), r.Coming(name), first}
	if q != nil && first == q { // there may be another one after it
		others = append(others, r.All()...)
	}
	for _, o := range others {
		if o != nil && o != q && o.Names()[1] == name {
			return fmt.Errorf("the name %.80q is taken by queue %s: %w", name, o.ID(), ErrQueueExists)
		}
	}
	return nil
}

// called returns the first queue with a name, open or being made.
func (r *openQueues) called(name string) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]*Queue{}
		for _, q := range r.all {
			r.enter(q)
		}
		for _, q := range r.coming {
			r.enter(q)
		}
	}
	return r.byName[name]
}

// enter makes a queue known by its names; the first one of a name stays. mu is held.
func (r *openQueues) enter(q *Queue) {
	if r.byName == nil {
		return
	}
	for _, name := range q.Names() {
		if _, taken := r.byName[name]; name != "" && name != q.ID() && !taken {
			r.byName[name] = q
		}
	}
}

// Renamed says that the names of a queue have changed.
func (r *openQueues) Renamed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName = nil
}

// Expect keeps the names of a queue for it while it is being made, until Add or GiveUp.
func (r *openQueues) Expect(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coming == nil {
		r.coming = map[string]*Queue{}
	}
	r.coming[q.ID()] = q
	r.enter(q)
}

// GiveUp takes Expect back.
func (r *openQueues) GiveUp(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.coming, q.ID())
	r.byName = nil
}

// Coming returns the queue being made with a cleaned identifier, or nil.
func (r *openQueues) Coming(id string) *Queue {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.coming[id]
}

// Add opens a queue, the last in the order.
func (r *openQueues) Add(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]*Queue{}
	}
	r.byID[q.ID()] = q
	r.all = append(r.all, q)
	delete(r.coming, q.ID())
	r.enter(q)
}

// Drop takes an open queue out.
func (r *openQueues) Drop(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, q.ID())
	r.byName = nil
	r.all = slices.DeleteFunc(slices.Clone(r.all), func(o *Queue) bool { return o == q })
}

// Order puts the queues in the order of identifiers; others come last.
func (r *openQueues) Order(ids []string) {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	number := func(q *Queue) int {
		if i, ok := at[q.ID()]; ok {
			return i
		}
		return len(ids)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.Clone(r.all)
	r.byName = nil
	slices.SortStableFunc(r.all, func(a, b *Queue) int { return number(a) - number(b) })
}

// eachWorker is how many queues make a further processor worth it.
const eachWorker = 200

// sideBySide calls do for those of 0 to n-1 that stand apart, on all processors, if there
// are many. It returns the others in their order.
func sideBySide(n int, apart func(i int) bool, do func(i int)) (rest []int) {
	done := make([]bool, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/eachWorker) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if apart(i) {
					do(i)
					done[i] = true
				}
			}
		})
	}
	workers.Wait()
	for i := range n {
		if !done[i] {
			rest = append(rest, i)
		}
	}
	return rest
}
