package queuefs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/snapshot"
)

// CullOptions are the options of [Service.Cull].
type CullOptions struct {
	Queue string      // name; "" for all queues
	Keep  *Thresholds // instead of those of the queue, which must be named; nil: its own
	Dry   bool        // yield the jobs, and leave them
}

func (o *CullOptions) check() error {
	switch k := o.Keep; {
	case k == nil:
		return nil
	case o.Queue == "":
		return fmt.Errorf("%w: thresholds are those of one queue, and none is named", job.ErrBadName)
	case k.Size < 0 || k.Age < 0 || k.Age > home.MaxHours:
		return fmt.Errorf("%w: thresholds of %d jobs and %d hours are not from 0, and to %d hours", job.ErrBadName, k.Size, k.Age, home.MaxHours)
	}
	return nil
}

// Cull removes processed jobs by the thresholds of their queues (Cutie 0.3, 3.2
// and 6.5), the longest unchanged first. Processed jobs are consumed or
// deleted, and not under a lease. Once they are more than CullingSize, all jobs
// without an event for CullingAge hours go; if CullingAge is zero or unset,
// only the excess goes. A queue without CullingSize is left alone, and so is a
// job with a Destruction ahead, with a successor at the end of the queue, on its way to a
// consumer, see [Queue.Given], or consumed with a [Take.Key] not five minutes ago.
// Thresholds of the call need no free space, while changing those of the queue does: so
// they make space on a full disk.
//
// It culls as the caller ranges over it, about a thousand jobs at a time, and
// stops when the caller does. Yielded jobs are gone on stable storage, unless
// Dry. An error comes last.
func (s *Service) Cull(ctx context.Context, o CullOptions) iter.Seq2[Culled, error] {
	return func(yield func(Culled, error) bool) {
		queues, err := s.toCull(o)
		if err == nil && !o.Dry {
			err = s.usable()
		}
		if err != nil {
			yield(Culled{}, err)
			return
		}
		for _, q := range queues {
			more, err := q.cull(ctx, o.Keep, o.Dry, func(c Culled) bool { return yield(c, nil) })
			if errors.Is(err, ledger.ErrNoQueue) && o.Queue == "" {
				continue // removed meanwhile
			}
			if err != nil {
				yield(Culled{}, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// toCull returns the queues of the options; of all, the ones with thresholds.
func (s *Service) toCull(o CullOptions) ([]*Queue, error) {
	if err := o.check(); err != nil || o.Queue == "" {
		return slices.DeleteFunc(slices.Clone(s.Queues()), func(q *Queue) bool {
			return q.Shut() != nil || q.Mirror().Live() || q.info().CullingSize < 0 && !q.ledger.Vacates()
		}), err
	}
	q, err := s.Ask(o.Queue)
	if err == nil && !o.Dry {
		err = q.original.Refuse()
	}
	return []*Queue{q}, err
}

// Kept returns, for each queue, the number of due jobs left by [Service.Cull] with
// the same options. Call it after Cull has ended. It looks at all due jobs, and
// reads the files of jobs with a retention.
func (s *Service) Kept(ctx context.Context, o CullOptions) (all []Kept, err error) {
	queues, err := s.toCull(o)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		k, err := q.kept(ctx, o.Keep)
		if err != nil {
			return all, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		if k.Spared > 0 {
			all = append(all, k)
		}
	}
	return all, nil
}

// Thresholds limit the processed jobs of a queue, as CullingSize and CullingAge of its
// properties do. The zero value keeps none.
type Thresholds struct {
	Size int64 // processed jobs
	Age  int64 // hours; 0: as many go as are too many
}

// Culled is a culled job, or one to be culled.
type Culled struct {
	Queue  string // cleaned identifier
	Job    job.ID
	Status job.Status // where it stood: Consumed or Deleted
	At     time.Time  // of its last event
	Size   int64      // octets of the payload
}

// A Kept is how many jobs of a queue are due for culling and stay all the same.
type Kept struct {
	Queue  string // cleaned identifier
	Spared int    // by their Destruction, or because the job in their place is there
}

// cullBatch is how many jobs are culled with one sync, and cullChunk how many
// are chosen at a time.
const (
	cullBatch = 1000
	cullChunk = 32 << 10
)

// cull culls by keep, or else by the thresholds of the queue, and calls yield with the
// culled jobs. It returns false if yield did. With dry it leaves the jobs.
func (q *Queue) cull(ctx context.Context, keep *Thresholds, dry bool, yield func(Culled) bool) (more bool, err error) {
	if !dry {
		q.vacate()
	}
	before, most := q.excess(keep)
	var last index.Candidate
	for most > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		some := q.oldest(last, before, min(most, cullChunk), dry)
		if len(some) == 0 {
			return true, nil
		}
		first := some[0].Changed
		last = some[len(some)-1]
		some = q.unretained(ctx, some)
		most -= len(some)
		if more, err := q.cullThese(ctx, some, keep, dry, yield); !more || err != nil {
			q.stays(first) // or a younger one does
			return more, err
		}
	}
	return true, nil
}

// cullThese culls jobs. It returns false if yield did, or there is an error.
func (q *Queue) cullThese(ctx context.Context, some []index.Candidate, keep *Thresholds, dry bool, yield func(Culled) bool) (more bool, err error) {
	for len(some) > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(len(some), cullBatch)
		var culled []Culled
		if dry {
			culled = q.unchanged(some[:n])
		} else {
			// Without free space for files there will be some when jobs are gone.
			if err := q.catchUp(ctx, q.filed(some[:n])); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
				return false, err
			}
			if culled, n, err = q.cullSome(some[:n], keep); err != nil {
				return false, err
			}
		}
		if len(culled) < n {
			q.stays(some[0].Changed) // or a younger one, in somebody's hands
		}
		some = some[n:]
		for _, c := range culled {
			if !yield(c) {
				return false, nil
			}
		}
	}
	return true, ctx.Err()
}

// stays records a due job that stays.
func (q *Queue) stays(changed int64) {
	q.ledger.Note(func(x *index.Index) { x.Stays(changed) })
}

// thresholds returns keep, or else those of the queue.
func (q *Queue) thresholds(keep *Thresholds) Thresholds {
	if keep != nil {
		return *keep
	}
	info := q.info()
	return Thresholds{Size: info.CullingSize, Age: info.CullingAge}
}

// excess returns how many jobs may be culled, and the latest time (µs) of their
// last events. If there is none it looks at no job.
func (q *Queue) excess(keep *Thresholds) (before int64, most int) {
	now, t := q.svc.now(), q.thresholds(keep)
	q.ledger.Look(func(x *index.Index) { before, most = x.DueAfter(t.Size, t.Age, now) })
	return before, most
}

// oldest returns the n jobs after last that are unchanged longest, none of them
// changed after before.
func (q *Queue) oldest(last index.Candidate, before int64, n int, dry bool) []index.Candidate {
	search := index.NewSearch(last, before, q.svc.now(), n)
	for i, more := 0, true; more; i++ {
		q.ledger.Note(func(x *index.Index) { more = x.Look(search, i, q.wanted(x)) })
	}
	found, rest := search.Found()
	if rest != 0 && !dry {
		q.ledger.Note(func(x *index.Index) { x.SetUnchanged(rest) })
	}
	return found
}

// unchanged returns the facts of the jobs, without changed ones.
func (q *Queue) unchanged(some []index.Candidate) (culled []Culled) {
	q.ledger.Look(func(x *index.Index) {
		for _, c := range some {
			if j, ok := q.cullable(x, c); ok {
				culled = append(culled, j)
			}
		}
	})
	return culled
}

// wanted reports whether a job is on its way to a consumer, or may be asked for again by a
// request with a key. After culling the repeated request would take another job.
func (q *Queue) wanted(x *index.Index) func(job.ID) bool {
	since := q.svc.now() - keyRemembered.Microseconds()
	return func(id job.ID) bool { return q.ledger.Giving(id) || x.KeyedSince(id, since) }
}

// filed returns how many of the jobs have files to be removed.
func (q *Queue) filed(some []index.Candidate) (n int) {
	q.ledger.Look(func(x *index.Index) {
		for _, c := range some {
			if j, _ := x.Job(c.Job); j.Filed != 0 || j.PayloadFiled {
				n++
			}
		}
	})
	return n
}

// cullable returns the facts of a job; false if it has changed since it was
// chosen, or is in use.
func (q *Queue) cullable(x *index.Index, c index.Candidate) (Culled, bool) {
	if !x.Cullable(c) || q.wanted(x)(c.Job) {
		return Culled{}, false
	}
	j, _ := x.Job(c.Job)
	return Culled{Queue: q.ledger.ID(), Job: c.Job, Status: j.Status, At: time.UnixMicro(c.Changed).UTC(), Size: j.Size}, true
}

// cullSome culls the first n of the jobs, all unless they are too much for one
// record of the journal.
func (q *Queue) cullSome(some []index.Candidate, keep *Thresholds) (culled []Culled, n int, err error) {
	for n = len(some); ; n /= 2 {
		culled, err = q.cullAll(some[:n], keep)
		if n < 2 || !errors.Is(err, journal.ErrTooLarge) {
			break
		}
	}
	return culled, n, err
}

// cullAll culls the jobs with one sync: no more than are too many now, since others may
// have culled the queue, or put jobs back, after these were found.
func (q *Queue) cullAll(some []index.Candidate, keep *Thresholds) (culled []Culled, err error) {
	q.culling.Lock()
	defer q.culling.Unlock()
	ids := make([]job.ID, 0, len(some))
	t := q.thresholds(keep)
	q.ledger.Note(func(x *index.Index) {
		most := len(some)
		if t.Age <= 0 { // an age takes all that are older, also below the size
			most = int(min(int64(most), x.Counts.Processed()-t.Size))
		}
		for _, c := range some {
			if len(ids) >= most {
				break
			}
			if j, ok := q.cullable(x, c); ok && x.Claim(c.Job) {
				ids = append(ids, c.Job)
				culled = append(culled, j)
			}
		}
	})
	results, left := q.resultsOf(ids)
	if len(left) > 0 {
		q.ledger.Release(left...)
		ids = slices.DeleteFunc(ids, func(id job.ID) bool { return slices.Contains(left, id) })
		culled = slices.DeleteFunc(culled, func(c Culled) bool { return slices.Contains(left, c.Job) })
	}
	err = q.commit(func(b *ledger.Batch) error {
		for _, id := range ids {
			r := cullRecord(b, id)
			r.SetResults(results[id], nil)
			b.Add(r)
		}
		return nil
	})
	if err != nil {
		q.ledger.Release(ids...)
		return nil, err
	}
	return culled, nil
}

// resultsOf returns the results of claimed jobs: their event names them. Jobs that
// cannot be read now are left for later.
func (q *Queue) resultsOf(ids []job.ID) (results map[job.ID][]job.Result, left []job.ID) {
	var some []job.ID
	q.ledger.Look(func(x *index.Index) {
		for _, id := range ids {
			if j, _ := x.Job(id); j.Results {
				some = append(some, id)
			}
		}
	})
	results = make(map[job.ID][]job.Result, len(some))
	for _, id := range some {
		j, err := q.content.Job(id)
		if err != nil {
			left = append(left, id)
		}
		results[id] = j.Results
	}
	return results, left
}

// cullRecord returns the event that removes a job. It has the facts of the
// payload, and no job file.
func cullRecord(b *ledger.Batch, id job.ID) *record.Record {
	j, _ := b.Index().Job(id)
	r := &record.Record{Kind: job.Cull, From: j.Status, Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted, MediaType: j.MediaType}}
	r.Seq, r.Time = b.Next()
	r.Sums(b.Index(), id)
	r.SetText(nil)
	return r
}

// vacate gives back the memory of full pages without jobs, when the files of
// the jobs are gone too.
func (q *Queue) vacate() { q.ledger.Note(func(x *index.Index) { x.Vacate() }) }

// unretained returns the jobs to be culled. Job files of retained ones alone are
// read.
func (q *Queue) unretained(ctx context.Context, some []index.Candidate) []index.Candidate {
	marked := make(map[job.ID]bool)
	q.ledger.Look(func(x *index.Index) {
		if x.Counts.Retained == 0 {
			return
		}
		for _, c := range some {
			if j, _ := x.Job(c.Job); j.Retained {
				marked[c.Job] = true
			}
		}
	})
	if len(marked) == 0 {
		return some
	}
	may, stays := some[:0], int64(math.MaxInt64)
	for _, c := range some {
		if ctx.Err() != nil {
			return nil
		}
		if marked[c.Job] && q.retained(c.Job) {
			stays = min(stays, c.Changed)
		} else {
			may = append(may, c)
		}
	}
	q.stays(stays)
	return may
}

// kept returns how many due jobs cull leaves. It looks at all of them, and reads the files
// of jobs with a retention.
func (q *Queue) kept(ctx context.Context, keep *Thresholds) (k Kept, err error) {
	k.Queue = q.ledger.ID()
	before, most := q.excess(keep)
	if most == 0 {
		return k, nil
	}
	goes := 0
	for n := range q.Pages() {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		for _, id := range q.duePage(n, before) {
			if err := ctx.Err(); err != nil {
				return k, err
			}
			if q.retained(id) {
				k.Spared++
			} else {
				goes++
			}
		}
	}
	// With a size alone, as many jobs are due as there are too many.
	left := max(q.extra(keep)-goes, 0)
	if left == 0 || most < math.MaxInt {
		k.Spared = min(k.Spared, left)
	}
	return k, nil
}

// extra returns how many processed jobs there are more than are to be kept.
func (q *Queue) extra(keep *Thresholds) int {
	size := q.thresholds(keep).Size
	var n int64
	q.ledger.Look(func(x *index.Index) { n = x.Counts.Processed() })
	return int(n - size)
}

// duePage returns the jobs of a page without a change after before.
func (q *Queue) duePage(n int, before int64) (old []job.ID) {
	q.ledger.Look(func(x *index.Index) { old = x.Due(n, before, q.wanted(x)) })
	return old
}

// The destructions say which jobs culling leaves alone for how long: a job until its
// Destruction, and as long as the job in its place is there, after a requeue at the end
// or a submission in its place. The job file says both. A mark in the index names these
// job files, so other jobs cost nothing. The index has the Destruction of each marked job
// in memory; after a start [Queue.Due] reads the job files, some at a call.
type destructions struct {
	mu    sync.Mutex // before the lock of the ledger
	read  job.ID     // jobs up to this one were looked at since the start
	known bool       // all of them were
}

// forgetDestructions forgets which job files were read: jobs have changed since, and their
// Destruction was not noted.
func (q *Queue) forgetDestructions() {
	q.destructions.mu.Lock()
	defer q.destructions.mu.Unlock()
	q.destructions.read, q.destructions.known = 0, false
}

// dueReads is how many job files one call of Due reads after a start: a few tens
// of milliseconds. duePages is how many pages of the index it scans for them.
const (
	dueReads = 1000
	duePages = 64
)

// Due returns up to max jobs whose Destruction has come by now, in no order. It
// costs what is due. After a start the first calls also read job files, one or two
// thousand each, and name no job before.
func (q *Queue) Due(ctx context.Context, now time.Time, max int) (ids []job.ID, err error) {
	if err := q.loadDestructions(ctx); err != nil {
		return nil, err
	}
	q.ledger.Look(func(x *index.Index) {
		x.Destructions.Due(now.UnixMicro(), func(id job.ID) bool {
			ids = append(ids, id)
			return len(ids) < max
		})
	})
	return ids, nil
}

// loadDestructions reads the next job files, until all are known.
func (q *Queue) loadDestructions(ctx context.Context) error {
	q.destructions.mu.Lock()
	defer q.destructions.mu.Unlock()
	if q.destructions.known {
		return nil
	}
	ids, to, all := q.unreadDestructions(q.destructions.read)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		j, err := q.content.Job(id)
		if err != nil && !errors.Is(err, ledger.ErrNoJob) {
			return err
		}
		q.ledger.Note(func(x *index.Index) {
			if _, known := x.Destructions.At(id); !known && retains(x, id) && err == nil {
				x.Destructions.Set(id, job.Micros(j.Destruction))
			}
		})
	}
	q.destructions.read, q.destructions.known = to, all
	return nil
}

// unreadDestructions returns the next jobs to read after one, the last job of the index looked
// at, and whether it was the last of all.
func (q *Queue) unreadDestructions(after job.ID) (ids []job.ID, to job.ID, all bool) {
	to, all = after, true
	q.ledger.Look(func(x *index.Index) {
		first := int((to + 1) / index.PageJobs)
		for n := first; n < x.Pages(); n++ {
			if n == first+duePages || len(ids) >= dueReads {
				all = false
				return
			}
			for _, id := range x.Retained(n) {
				if _, known := x.Destructions.At(id); !known {
					ids = append(ids, id)
				}
			}
			to = job.ID((n+1)*index.PageJobs - 1)
		}
	})
	return ids, to, all
}

// retains reports whether the job file says how long the job is retained.
func retains(x *index.Index, id job.ID) bool {
	j, _ := x.Job(id)
	return j.Retained
}

// retained reports whether culling leaves the job alone. An unreadable job is
// left alone.
func (q *Queue) retained(id job.ID) bool {
	now := q.svc.now()
	var may bool
	var ends int64
	q.ledger.Look(func(x *index.Index) {
		may = retains(x, id)
		ends, _ = x.Destructions.At(id)
	})
	if !may || ends > now {
		return may
	}
	j, err := q.content.Job(id)
	if err != nil {
		return !errors.Is(err, ledger.ErrNoJob)
	}
	if job.Micros(j.Destruction) > now {
		return true
	}
	again, err := job.ParseID(j.Extra.Value(job.RequeuedAs))
	if err != nil {
		return false
	}
	st, _ := q.ledger.Status(again)
	return st != 0
}

// tombstones are the notes of culled jobs of a queue: the newest in the index, the others
// in rows of the table. Its methods are safe for concurrent use.
type tombstones struct {
	ledger *ledger.Ledger
	index  *snapshot.Store

	mu     sync.Mutex // before the lock of the ledger
	staged int        // of the newest ones, for the checkpoint on its way
}

// load finds the last one in the table.
func (t *tombstones) load() error {
	last, err := t.index.LastStone(t.ledger.ID())
	t.ledger.Note(func(x *index.Index) { x.Tombstones.SetLast(last) })
	return err
}

// Since returns up to limit tombstones after an instant, in the order of their events.
func (t *tombstones) Since(since time.Time, limit int) ([]index.Tombstone, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stones, err := t.index.Stones(t.ledger.ID(), since.UnixMicro(), limit)
	if err != nil {
		return nil, err
	}
	t.ledger.Look(func(x *index.Index) {
		for _, s := range x.Tombstones.Fresh() {
			if len(stones) < limit && s.Culled > since.UnixMicro() {
				stones = append(stones, s)
			}
		}
	})
	return stones, nil
}

// stage stages the newest ones for a checkpoint, without those from before an instant. They
// stay in the index until they are committed.
func (t *tombstones) stage(before time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var fresh []index.Tombstone
	t.ledger.Look(func(x *index.Index) { fresh = x.Tombstones.Fresh() })
	if t.staged = len(fresh); t.staged == 0 {
		return nil
	}
	for some := range slices.Chunk(fresh, 10_000) {
		if err := t.index.Bury(t.ledger.ID(), some); err != nil {
			return err
		}
	}
	return t.index.Unbury(t.ledger.ID(), before.UnixMicro())
}

// committed says that the staged ones are in the table.
func (t *tombstones) committed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.staged > 0 {
		t.ledger.Note(func(x *index.Index) { x.Tombstones.Filed(t.staged) })
		t.staged = 0
	}
}

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    job.ID
	Culled time.Time
	Seq    job.Seq // of the event
}

// maxDated is how many one call returns.
const maxDated = 10_000

// Dated is Since, for at most 10,000 tombstones; a limit of 0 means 1000.
func (t *tombstones) Dated(since time.Time, limit int) (stones []Tombstone, err error) {
	if limit <= 0 {
		limit = 1000
	}
	found, err := t.Since(since, min(limit, maxDated))
	for _, x := range found {
		stones = append(stones, Tombstone{Job: x.Job, Culled: time.UnixMicro(x.Culled).UTC(), Seq: x.Seq})
	}
	return stones, err
}
