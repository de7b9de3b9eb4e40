package queuefs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/content"

	"cutie/queuefs/index"
	"cutie/queuefs/ledger"
	"cutie/queuefs/tree"
)

// A Payload is the content of a job, to be closed after use. It stays readable even when
// the job is culled meanwhile.
type Payload = tree.Payload

// Job returns a job of any status. The error is [ErrNoJob] if there is none. If
// other hands have lost or damaged its file, the job has the facts in the
// index.
func (q *Queue) Job(id JobID) (Job, error) { return q.content.Job(id) }

// JobFile returns the exact octets of the job file if the job stands in st,
// else [ErrNoJob].
func (q *Queue) JobFile(id JobID, st Status) ([]byte, Facts, error) {
	return q.content.JobFile(id, st)
}

// Payload opens the payload of a job of any status.
func (q *Queue) Payload(id JobID) (*Payload, error) { return q.content.Payload(id) }

// A Pass reads jobs of a queue in their order, as Queue does; see [content.Pass].
type Pass interface {
	JobFile(id JobID, st Status) ([]byte, Facts, error)
	Payload(id JobID) (*Payload, error)
}

// Pass returns a new one.
func (q *Queue) Pass() Pass { return q.content.Pass() }

// Result opens a result of a job, to be closed after use. The error is
// [ErrNoResult] if the job has none of the name.
func (q *Queue) Result(id JobID, name string) (Result, *Payload, error) {
	return q.content.Result(id, name)
}

// maxPeeks is how often Peek looks for another head of the queue.
const maxPeeks = 100

// Peek returns the job at the head of the queue and leaves it there (Cutie 0.3,
// 5.7). If all pending jobs are on hold, or there is none, the error is
// [ErrEmpty].
func (q *Queue) Peek() (Job, error) {
	for range maxPeeks {
		var id JobID
		q.look(func(x *index.Index) { id = x.Head() })
		if id == 0 {
			break
		}
		j, err := q.Job(id)
		if err == nil && j.Status == Pending {
			return j, nil
		}
		if err != nil && !errors.Is(err, ErrNoJob) {
			return Job{}, err
		}
	}
	return Job{}, ErrEmpty
}

// Sound returns why a job is not to be handed out: its payload is lost, or does not have its
// digest. Payloads of a mebibyte and more are compared if the queue verifies on read (Cutie
// 0.3, 3.2).
func (q *Queue) Sound(id JobID) error { return q.content.Sound(id, q.info().VerifyOnRead) }

// Listed is Job for a list: a job whose file cannot be read now has the facts in the index,
// and its element note says why it is unreadable.
func (q *Queue) Listed(id JobID) (Job, error) {
	j, err := q.Job(id)
	if unread, ok := errors.AsType[*content.UnreadError](err); ok {
		return q.content.Unread(id, unread.Err)
	}
	return j, err
}

// List returns jobs in FIFO order. It reads a job file for each, as Listed does.
func (q *Queue) List(o ListOptions) ([]Job, error) {
	ids := q.IDs(o)
	jobs := make([]Job, 0, len(ids))
	for _, id := range ids {
		j, err := q.Listed(id)
		if errors.Is(err, ErrNoJob) {
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
func (q *Queue) Seq() Seq { return q.ledger.Last() }

// Events returns the events after the given one, oldest first, at most max of
// them (1000 if max is 0). They are read from the journal. If it does not reach
// back that far the error is [ErrGone].
func (q *Queue) Events(after Seq, max int) ([]Event, error) {
	if max <= 0 {
		max = 1000
	}
	return q.ledger.Events(after, max)
}

// A Journaled event has its parts in the journal.
type Journaled = ledger.Journaled

// Journaled is as [Queue.Events], with the parts of events in the journal: up to size
// bytes of them, but at least one event.
func (q *Queue) Journaled(after Seq, max, size int) ([]Journaled, error) {
	return q.ledger.Journaled(after, max, size)
}

// Wait returns nil once the queue has an event after the given one. If it is
// removed meanwhile the error is [ErrNoQueue].
func (q *Queue) Wait(ctx context.Context, after Seq) error { return q.ledger.Wait(ctx, after) }

// WaitJob returns nil once the job has an event after the given time, the one
// from [Queue.Status]. If the job is culled meanwhile the error is [ErrNoJob], if
// the queue is removed [ErrNoQueue].
func (q *Queue) WaitJob(ctx context.Context, id JobID, after time.Time) error {
	return q.ledger.WaitJob(ctx, id, after)
}

// Tombstones returns the jobs culled after since, in the order of their events, at
// most limit of them: 0 means 1000, and 10,000 is the most. They are kept for
// [ServiceInfo].TombstoneAge. The time of the last one is the since of the next
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
