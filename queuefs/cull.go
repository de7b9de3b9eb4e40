package queuefs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// CullOptions are the options of [Service.Cull].
type CullOptions struct {
	Queue string      // name; "" for all queues
	Keep  *Thresholds // instead of those of the queue, which must be named; nil: its own
	Dry   bool        // yield the jobs, and leave them
}

// Thresholds limit the processed jobs of a queue, as CullingSize and CullingAge
// of [QueueInfo] do. The zero value keeps none.
type Thresholds struct {
	Size int64 // processed jobs
	Age  int64 // hours; 0: as many go as are too many
}

func (o *CullOptions) check() error {
	switch k := o.Keep; {
	case k == nil:
		return nil
	case o.Queue == "":
		return fmt.Errorf("%w: thresholds are those of one queue, and none is named", ErrBadName)
	case k.Size < 0 || k.Age < 0 || k.Age > home.MaxHours:
		return fmt.Errorf("%w: thresholds of %d jobs and %d hours are not from 0, and to %d hours", ErrBadName, k.Size, k.Age, home.MaxHours)
	}
	return nil
}

// Culled is a culled job, or one to be culled.
type Culled struct {
	Queue  string // cleaned identifier
	Job    JobID
	Status Status    // where it stood: Consumed or Deleted
	At     time.Time // of its last event
	Size   int64     // octets of the payload
}

// cullBatch is how many jobs are culled with one sync, and cullChunk how many
// are chosen at a time.
const (
	cullBatch = 1000
	cullChunk = 32 << 10
)

// Cull removes processed jobs by the thresholds of their queues (Cutie 0.3, 3.2
// and 6.5), the longest unchanged first. Processed jobs are consumed or
// deleted, and not under a lease. Once they are more than CullingSize, all jobs
// without an event for CullingAge hours go; if CullingAge is zero or unset,
// only the excess goes. A queue without CullingSize is left alone, and so is a
// job needed by a follower, see [Keeper], with a Destruction ahead, with a
// successor at the end of the queue, or on its way to a consumer, see
// [Queue.Given]. Thresholds of the call need no free space, while changing
// those of the queue does: so they make space on a full disk.
//
// It culls as the caller ranges over it, about a thousand jobs at a time, and
// stops when the caller does. Yielded jobs are gone on stable storage, unless
// Dry. An error comes last.
func (s *Service) Cull(ctx context.Context, o CullOptions) iter.Seq2[Culled, error] {
	return func(yield func(Culled, error) bool) {
		queues, err := s.Queues(), o.check()
		if err == nil && !o.Dry {
			err = s.usable()
		}
		if err != nil {
			yield(Culled{}, err)
			return
		}
		if o.Queue != "" {
			q, err := s.Queue(o.Queue)
			if err != nil {
				yield(Culled{}, err)
				return
			}
			queues = []*Queue{q}
		}
		for _, q := range queues {
			more, err := q.cull(ctx, o, func(c Culled) bool { return yield(c, nil) })
			if errors.Is(err, ErrNoQueue) && o.Queue == "" {
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

// cull culls one queue. It returns false if yield did.
func (q *Queue) cull(ctx context.Context, o CullOptions, yield func(Culled) bool) (more bool, err error) {
	if !o.Dry {
		q.vacate()
	}
	before, most := q.due(o.Keep)
	var last index.Candidate
	for most > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		some := q.oldest(last, min(before, q.needed()), min(most, cullChunk), o.Dry)
		if len(some) == 0 {
			return true, nil
		}
		first := some[0].Changed
		last = some[len(some)-1]
		some = q.unretained(ctx, some)
		most -= len(some)
		if more, err := q.cullThese(ctx, some, o.Dry, yield); !more || err != nil {
			q.stays(first) // or a younger one does
			return more, err
		}
	}
	return true, nil
}

// cullThese culls jobs. It returns false if yield did, or there is an error.
func (q *Queue) cullThese(ctx context.Context, some []index.Candidate, dry bool, yield func(Culled) bool) (more bool, err error) {
	for len(some) > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(len(some), cullBatch)
		culled := q.unchanged(some[:n])
		if !dry {
			// Without room for files there will be some when jobs are gone.
			if err := q.svc.catchUp(ctx, q, n); err != nil && !errors.Is(err, ErrNoSpace) {
				return false, err
			}
			if culled, n, err = q.cullSome(some[:n]); err != nil {
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

// due returns how many jobs may be culled, and the latest time (µs) of their
// last events. If there is none it looks at no job.
func (q *Queue) due(keep *Thresholds) (before int64, most int) {
	now := q.svc.now()
	t := Thresholds{q.info().CullingSize, q.info().CullingAge}
	if keep != nil {
		t = *keep
	}
	q.look(func(x *index.Index) { before, most = x.DueAfter(t.Size, t.Age, now) })
	return before, most
}

// needed returns the latest time (µs) of events whose jobs the followers can do
// without.
func (q *Queue) needed() int64 {
	if k, ok := q.svc.upkeep.follower.(Keeper); ok {
		if t := k.Needs(q.ID()); !t.IsZero() {
			return t.UnixMicro()
		}
	}
	return math.MaxInt64
}

// oldest returns the n jobs after last that are unchanged longest, none of them
// changed after before.
func (q *Queue) oldest(last index.Candidate, before int64, n int, dry bool) []index.Candidate {
	search := index.NewSearch(last, before, q.svc.now(), n)
	for i, more := 0, true; more; i++ {
		q.ledger.Note(func(x *index.Index) { more = x.Look(search, i, q.ledger.Giving) })
	}
	found, rest := search.Found()
	if rest != 0 && !dry {
		q.ledger.Note(func(x *index.Index) { x.SetUnchanged(rest) })
	}
	return found
}

// unchanged returns the facts of the jobs, without changed ones.
func (q *Queue) unchanged(some []index.Candidate) (culled []Culled) {
	q.look(func(x *index.Index) {
		for _, c := range some {
			if j, ok := q.cullable(x, c); ok {
				culled = append(culled, j)
			}
		}
	})
	return culled
}

// cullable returns the facts of a job; false if it has changed since it was
// chosen, or is in use.
func (q *Queue) cullable(x *index.Index, c index.Candidate) (Culled, bool) {
	if !x.Cullable(c) || q.ledger.Giving(c.Job) {
		return Culled{}, false
	}
	j, _ := x.Job(c.Job)
	return Culled{Queue: q.ID(), Job: c.Job, Status: j.Status, At: micro(c.Changed), Size: j.Size}, true
}

// cullSome culls the first n of the jobs, all unless they are too much for one
// record of the journal.
func (q *Queue) cullSome(some []index.Candidate) (culled []Culled, n int, err error) {
	for n = len(some); ; n /= 2 {
		culled, err = q.cullAll(some[:n])
		if n < 2 || !errors.Is(err, journal.ErrTooLarge) {
			break
		}
	}
	return culled, n, err
}

// cullAll culls the jobs with one sync.
func (q *Queue) cullAll(some []index.Candidate) (culled []Culled, err error) {
	ids := make([]JobID, 0, len(some))
	q.ledger.Note(func(x *index.Index) {
		for _, c := range some {
			if j, ok := q.cullable(x, c); ok && x.Claim(c.Job) {
				ids = append(ids, c.Job)
				culled = append(culled, j)
			}
		}
	})
	err = q.commit(func(b *ledger.Batch) error {
		for _, id := range ids {
			b.Add(cullRecord(b, id))
		}
		return nil
	})
	if err != nil {
		q.ledger.Release(ids...)
		return nil, err
	}
	return culled, nil
}

// cullRecord returns the event that removes a job. It has the facts of the
// payload, and no job file.
func cullRecord(b *ledger.Batch, id JobID) *record.Record {
	j, _ := b.Index().Job(id)
	r := &record.Record{Kind: Cull, From: j.Status, Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted, MediaType: j.MediaType}}
	r.Seq, r.Time = b.Next()
	r.Sums(b.Index(), id)
	r.SetText(nil)
	return r
}

// vacate gives back the memory of full pages without jobs, when the files of
// the jobs are gone too.
func (q *Queue) vacate() { q.ledger.Note(func(x *index.Index) { x.Vacate() }) }
