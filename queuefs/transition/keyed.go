package transition

import (
	"context"
	"errors"
	"slices"

	"cutie/queuefs/job"
	"cutie/queuefs/keys"
	"cutie/queuefs/ledger"
)

// takeOnce takes jobs by take for a request with a key. It gives the jobs consumed with
// the key before, until their leases end, or for [keys.Remembered]
// without a lease.
func (q *Desk) takeOnce(ctx context.Context, t Take, take func(context.Context, Take) ([]Taken, error)) ([]Taken, error) {
	release, err := q.Claims.Claim(ctx, []job.KeySum{job.SumOfKey("", job.ConsumerKey(t.User, t.Key))}, q.Shared.Gate.Sleep)
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
func (q *Desk) takenBefore(t Take) (taken []Taken, err error) {
	key, now := job.ConsumerKey(t.User, t.Key), job.Instant(q.Shared.Micro())
	ids := q.takes.Jobs(key)
	if t.Keep {
		q.Ledger.Give(ids) // before the look, so that none is culled after it
		defer func() {
			q.Ledger.Given(slices.DeleteFunc(ids, func(id job.ID) bool {
				return slices.ContainsFunc(taken, func(t Taken) bool { return t.ID == id })
			}))
		}()
	}
	for _, id := range ids {
		j, err := q.Content.Job(id)
		switch {
		case errors.Is(err, ledger.ErrNoJob):
			continue
		case err != nil:
			return nil, err
		case len(taken) == t.Max || j.Status != job.Consumed || j.ConsumerKey != key || !now.Before(keys.Ends(&j)):
			continue
		}
		again := Taken{Job: j, Again: true, kept: t.Keep}
		if !j.Lease.Ends.IsZero() {
			again.Token = job.TokenFor(t.User, t.Key, q.Ledger.ID(), j.ID, j.Requeues)
		}
		taken = append(taken, again)
	}
	return taken, nil
}
