package queuefs

import (
	"context"
	"errors"
	"slices"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// takeOnce takes jobs by take for a request with a key. It gives the jobs consumed with
// the key before, until their leases end, or for [queuefs.keyRemembered]
// without a lease.
func (q *Queue) takeOnce(ctx context.Context, t Take, take func(context.Context, Take) ([]Taken, error)) ([]Taken, error) {
	release, err := q.keyed.claim(ctx, []job.KeySum{job.SumOfKey("", job.ConsumerKey(t.User, t.Key))}, q.svc.shared.Gate.Sleep)
	if err != nil {
		return nil, err
	}
	defer release()
	if taken, err := q.takenBefore(t); len(taken) > 0 || err != nil {
		return taken, err
	}
	return take(ctx, t)
}

// takenBefore returns the jobs consumed with the key of t.
func (q *Queue) takenBefore(t Take) (taken []Taken, err error) {
	key, now := job.ConsumerKey(t.User, t.Key), job.Instant(q.svc.shared.Micro())
	ids := q.takes.with(key)
	if t.Keep {
		q.ledger.Give(ids) // before the look, so that none is culled after it
		defer func() {
			q.ledger.Given(slices.DeleteFunc(ids, func(id job.ID) bool {
				return slices.ContainsFunc(taken, func(t Taken) bool { return t.ID == id })
			}))
		}()
	}
	for _, id := range ids {
		j, err := q.content.Job(id)
		switch {
		case errors.Is(err, ledger.ErrNoJob):
			continue
		case err != nil:
			return nil, err
		case len(taken) == t.Max || j.Status != job.Consumed || j.ConsumerKey != key || !now.Before(keyEnds(&j)):
			continue
		}
		again := Taken{Job: j, Again: true, kept: t.Keep}
		if !j.Lease.Ends.IsZero() {
			again.Token = job.TokenFor(t.User, t.Key, q.ledger.ID(), j.ID, j.Requeues)
		}
		taken = append(taken, again)
	}
	return taken, nil
}
