package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// MaxTake is how many jobs one call may take.
const MaxTake = 1000

// A Take is a request for jobs.
type Take struct {
	By    string        // user agent of the consumer
	Max   int           // jobs at most; 0 means 1, and no more than MaxTake are given
	Lease time.Duration // at most home.MaxLease; 0 means the one of the queue if it wants reports, else none
	Key   string        // of the request: while Again is true the same jobs are given for it; "" for none
	User  string        // of the request: a key is of one user
	Keep  bool          // they are not culled before [Queue.Given] is called
	Still func() error  // why the consumer may not have them any more, after a wait; nil: always may
}

// A Taken is a job for its consumer.
type Taken struct {
	job.Job
	Token string // proof of the lease; "" without one
	Again bool   // it was given for the key before

	payload []byte
	kept    bool // for Given
}

// AtHand returns the payload, not to be written to, if it came along with the
// job at no cost; it may be empty. If it did not, AtHand returns nil, and
// [content.Reader.Payload] opens it.
func (t *Taken) AtHand() []byte { return t.payload }

// Take takes jobs from the head of the queue and makes them Consumed, with one
// sync (Cutie 0.3, 5.6): fewer than Max if their sidecars are large, and no jobs
// on hold. Each comes with a lease if one was asked for or the queue wants
// reports: until it ends the consumer calls Extend, Conclude or Return with the
// token, else see [Service.Expire]. A job with a missing or truncated payload is
// reported and put on hold instead, on a queue with verification also one with a
// damaged payload. One that cannot be read now is passed over for a while; if there
// are no others the error is [content.ErrUnread]. If there is no job, or the queue is paused, the
// error is [ledger.ErrEmpty]. Two concurrent calls get the jobs, and their events, in any order.
func (q *Queue) Take(ctx context.Context, t Take) ([]Taken, error) {
	if err := q.checkTake(&t); err != nil {
		return nil, err
	}
	if t.Key != "" {
		return q.takeOnce(ctx, t, q.take)
	}
	return q.take(ctx, t)
}

func (q *Queue) take(ctx context.Context, t Take) ([]Taken, error) {
	unread := 0
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids := q.ledger.ClaimFirst(t.Max)
		if len(ids) == 0 {
			return nil, q.none()
		}
		taken, err := q.handOut(ctx, ids, t)
		if unread < maxUnread && errors.Is(err, content.ErrUnread) {
			unread++
			continue
		}
		if len(taken) > 0 || err != nil {
			return taken, err
		}
	}
}

// TakeWait is Take with a wait for a job until ctx ends; then it returns
// [ledger.ErrEmpty]. Waiters are served in the order of their calls; after the end of its
// ctx a waiter takes no job. At a standby it waits for nothing.
func (q *Queue) TakeWait(ctx context.Context, t Take) ([]Taken, error) {
	if q.svc.Standby() {
		return nil, journal.ErrFollowing
	}
	if err := q.checkTake(&t); err != nil {
		return nil, err
	}
	if t.Key != "" {
		return q.takeOnce(ctx, t, q.takeWait)
	}
	return q.takeWait(ctx, t)
}

func (q *Queue) takeWait(ctx context.Context, t Take) ([]Taken, error) {
	unread := 0
	for {
		ids, err := q.ledger.Await(ctx, t.Max)
		if err == ledger.ErrEmpty {
			return nil, q.none()
		}
		if err != nil {
			return nil, err
		}
		if t.Still != nil {
			if err := t.Still(); err != nil {
				q.ledger.Release(ids...)
				return nil, err
			}
		}
		taken, err := q.handOut(ctx, ids, t)
		switch {
		case unread < maxUnread && errors.Is(err, content.ErrUnread):
			unread++
		case err != nil && errors.Is(err, ctx.Err()):
			return nil, ledger.ErrEmpty
		case err != nil || len(taken) > 0:
			return taken, err
		}
	}
}

// maxUnread is how many calls of handOut one take makes in vain for jobs that cannot be
// read: each may take the disk some seconds.
const maxUnread = 16

// none is the error of a take without an available job.
func (q *Queue) none() error {
	if q.ledger.Resting() > 0 && q.info().Paused.IsZero() {
		return fmt.Errorf("%s: the pending jobs: %w", q.ledger.ID(), content.ErrUnread)
	}
	return ledger.ErrEmpty
}

// Rest lets consumers pass over a pending job for a while, after its payload could
// not be read for the reason why.
func (q *Queue) Rest(ctx context.Context, id job.ID, why error) error {
	_, err := q.ledger.Claim(ctx, id, 0)
	if err == nil {
		q.rest(id, why)
	}
	return err
}

func (q *Queue) checkTake(t *Take) error {
	if t.Max == 0 {
		t.Max = 1
	}
	t.Max = min(t.Max, MaxTake)
	t.By = job.CleanLabel(t.By[:min(len(t.By), job.MaxLabel)])
	if err := checkLease(t.Lease); err != nil {
		return err
	}
	if t.Key != "" {
		if err := job.CheckKey(t.Key); err != nil {
			return err
		}
	}
	return cmp.Or(q.svc.shared.Gate.Usable(), q.original.Refuse())
}

// handOut makes claimed jobs Consumed. It returns none if all of them had to
// be put on hold, and [content.ErrUnread] if it found only jobs that cannot be read now.
func (q *Queue) handOut(ctx context.Context, ids []job.ID, t Take) ([]Taken, error) {
	q.readAhead(ids[len(ids)-1])
	ids, err := q.sound(ctx, ids)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	jobs, payloads, err := q.content.Fetch(ids, true)
	if err != nil {
		q.putOff(ids, err)
		return nil, err
	}
	if lost := content.Lost(jobs); len(lost) > 0 {
		return q.passOver(ids, lost)
	}
	if q.svc.reports.Any() {
		for _, id := range ids {
			q.svc.reports.Mended(q.dir.Path(dir.Payloads, id.String()))
			q.svc.reports.Mended(q.dir.Path(job.Pending.String(), id.String()))
		}
	}
	q.ledger.Give(t.unread(ids, payloads))
	lease := q.info().LeaseFor(t.Lease)
	tokens := t.leaseTokens(ids, lease)
	jobs, err = q.enact(jobs, func(j *job.Job, at time.Time) (job.Kind, error) {
		j.Enter(job.Consumed)
		j.Consumed, j.Consumer, j.Message = at, t.By, ""
		j.Attempts++
		j.ConsumerKey = job.ConsumerKey(t.User, t.Key)
		if lease > 0 {
			token, ok := tokens[j.ID]
			if !ok {
				text := job.TokenFor(t.User, t.Key, q.ledger.ID(), j.ID, j.Requeues)
				token = leaseToken{text, job.LeaseKey(text)}
				tokens[j.ID] = token
			}
			j.Lease = job.Lease{Ends: q.leaseEnd(lease), Key: token.key}
		}
		return job.Consume, nil
	})
	q.ledger.Given(t.unread(ids[len(jobs):], payloads[len(jobs):]))
	if err != nil {
		return nil, err
	}
	q.assist(len(jobs))
	taken := make([]Taken, len(jobs))
	for i := range jobs {
		taken[i] = Taken{Job: jobs[i], Token: tokens[jobs[i].ID].text, payload: payloads[i], kept: t.Keep && payloads[i] == nil}
	}
	return taken, nil
}

// A leaseToken is the proof of a lease, and its digest for the job file.
type leaseToken struct{ text, key string }

// leaseTokens draws the tokens of jobs, before any lock is taken. With a key they depend
// on the attempt, and are not made yet; without a lease the result is nil.
func (t Take) leaseTokens(ids []job.ID, lease time.Duration) map[job.ID]leaseToken {
	if lease <= 0 {
		return nil
	}
	tokens := make(map[job.ID]leaseToken, len(ids))
	for _, id := range ids {
		if t.Key != "" {
			break
		}
		text := job.NewToken()
		tokens[id] = leaseToken{text, job.LeaseKey(text)}
	}
	return tokens
}

// readAhead loads the packs of the page of a job to be taken, and of the next ones. A job
// in the journal needs none: it is read from there, and so are those after it.
func (q *Queue) readAhead(taken job.ID) {
	page := int(taken / index.PageJobs)
	if v, _ := q.ledger.View(taken); v.Journaled.File != 0 || !q.content.Packs.Wants(page) || q.svc.shared.Gate.Enter() != nil {
		return
	}
	go func() {
		defer q.svc.shared.Gate.Leave()
		q.content.Packs.Load(page, q.svc.shared.Gate.Usable)
	}()
}

// sound returns the claimed jobs fit to be handed out. A job with a missing or
// truncated payload is put on hold, so that it is not consumed by nobody, and the
// queue goes on after it. So is a job with a wrong digest, which is compared for short payloads
// in files, and for all with VerifyOnRead. A job that cannot be read now rests, and is returned in time; if there are no
// others the error is its.
func (q *Queue) sound(ctx context.Context, ids []job.ID) ([]job.ID, error) {
	all := q.info().VerifyOnRead
	var failed map[job.ID]error
	for _, id := range ids {
		err := ctx.Err()
		if err == nil {
			if err = q.content.Sound(id, all); err == nil {
				continue
			}
		}
		if ctx.Err() != nil || content.Exhausted(err) {
			q.ledger.Release(ids...)
			return nil, err
		}
		if failed == nil {
			failed = map[job.ID]error{}
		}
		failed[id] = err
	}
	if len(failed) == 0 {
		return ids, nil
	}
	var good, bad []job.ID
	var unread error
	for _, id := range ids {
		switch err := failed[id]; {
		case err == nil:
			good = append(good, id)
		case content.Transient(err):
			unread = err
			q.rest(id, err)
		default:
			bad = append(bad, id)
		}
	}
	if len(bad) == 0 {
		if len(good) > 0 {
			unread = nil
		}
		return good, unread
	}
	if _, err := q.change(bad, func(j *job.Job, t time.Time) (job.Kind, error) {
		j.Hold(t, content.Reason(j.ID, failed[j.ID]), time.Time{})
		return job.Hold, nil
	}); err != nil {
		q.ledger.Release(good...)
		return nil, err
	}
	for _, id := range bad {
		q.svc.report(q.dir.Path(dir.Payloads, id.String()), content.Reason(id, failed[id])+"; the job is on hold")
	}
	return good, nil
}

// passOver puts those of the claimed jobs on hold that lost their job files. The
// others are claimed again by the caller.
func (q *Queue) passOver(ids, lost []job.ID) ([]Taken, error) {
	q.ledger.Release(slices.DeleteFunc(slices.Clone(ids), func(id job.ID) bool { return slices.Contains(lost, id) })...)
	_, err := q.change(lost, func(j *job.Job, t time.Time) (job.Kind, error) {
		j.Hold(t, lostFile, time.Time{})
		return job.Hold, nil
	})
	for _, id := range lost {
		q.svc.report(q.dir.Path(job.Pending.String(), id.String()), lostFile+"; the job is on hold")
	}
	return nil, err
}

// Given ends the protection of jobs taken with Keep, after they were read or given
// up. Call it once for each call of Take.
func (q *Queue) Given(taken []Taken) {
	var ids []job.ID
	for i := range taken {
		if taken[i].kept {
			ids = append(ids, taken[i].ID)
		}
	}
	q.ledger.Given(ids)
}

// unread returns the jobs whose payloads their consumer has still to read.
func (t *Take) unread(ids []job.ID, payloads [][]byte) (unread []job.ID) {
	for i := range ids {
		if t.Keep && payloads[i] == nil {
			unread = append(unread, ids[i])
		}
	}
	return unread
}
