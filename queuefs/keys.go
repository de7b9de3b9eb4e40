package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A key names a submission for a client without an answer: it asks again with the key, and
// nothing happens twice. The key is in the job file and in the index, as long as the job
// is known. So it outlives a crash, a rebuild and a promotion.

// storeOnce is Commit of jobs with keys: those whose keys are in the queue already are returned.
func (s *Submission) storeOnce(ctx context.Context) ([]job.Job, error) {
	sums, err := s.giveKeys()
	if err != nil {
		return nil, err
	}
	release, err := s.to.keyed.claim(ctx, sums, s.to.svc.shared.Gate.Sleep)
	if err != nil {
		return nil, err
	}
	defer release()
	jobs, err := s.known()
	if err != nil {
		return nil, err
	}
	var fresh []*Upload
	for i, d := range s.uploads {
		if d.known = jobs[i].ID != 0; !d.known {
			fresh = append(fresh, d)
		}
	}
	if s.again = len(fresh) == 0; s.again {
		return jobs, nil
	}
	stored, err := s.store(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for i, d := range s.uploads {
		if !d.known {
			jobs[i], stored = stored[0], stored[1:]
		}
	}
	return jobs, nil
}

// giveKeys gives the jobs their keys, and returns the sums of all keys to claim.
func (s *Submission) giveKeys() (sums []job.KeySum, err error) {
	if s.key != "" {
		if err := job.CheckKey(s.key); err != nil {
			return nil, err
		}
		// Claimed beside those of the jobs, so that submissions of other numbers of
		// jobs wait, too.
		sums = append(sums, job.SumOfKey(s.owner(), s.key))
	}
	for i, d := range s.uploads {
		m := &d.meta
		if s.key != "" {
			if m.Key != "" {
				return nil, fmt.Errorf("%w: key %q beside the key of the submission", job.ErrBadName, m.Key)
			}
			m.Key = s.key
			if len(s.uploads) > 1 {
				m.Key = job.PartKey(s.key, i+1)
			}
			if err := job.CheckKey(m.Key); err != nil {
				return nil, err
			}
		}
		if m.Key != "" && m.Key != s.key {
			sums = append(sums, job.SumOfKey(m.Owner, m.Key))
		}
	}
	slices.Sort(sums)
	if len(slices.Compact(slices.Clone(sums))) < len(sums) {
		return nil, fmt.Errorf("%w: two jobs of a submission have one key", job.ErrBadName)
	}
	return sums, nil
}

// known returns the jobs of the submission that are in the queue, by their keys; the
// others are zero.
func (s *Submission) known() ([]job.Job, error) {
	jobs := make([]job.Job, len(s.uploads))
	n := 0
	for i, d := range s.uploads {
		if d.meta.Key == "" {
			continue
		}
		j, err := s.to.submitted(d.meta.Owner, d.meta.Key)
		if err != nil {
			return nil, err
		}
		if j.ID == 0 {
			continue
		}
		if err := d.matches(&j); err != nil {
			return nil, err
		}
		jobs[i], n = j, n+1
	}
	if s.key == "" {
		return jobs, nil
	}
	return jobs, s.whole(jobs, n)
}

// whole refuses a submission if its key was used for another number of jobs; n of jobs
// are known.
func (s *Submission) whole(jobs []job.Job, n int) error {
	const why = "is of another number of jobs"
	others := []string{job.PartKey(s.key, 1)}
	if len(jobs) > 1 {
		others = []string{s.key, job.PartKey(s.key, len(jobs)+1)}
		if i := slices.IndexFunc(jobs, func(j job.Job) bool { return j.ID != 0 }); i >= 0 && n < len(jobs) {
			return usedKey(&jobs[i], s.key, why)
		}
	}
	for _, key := range others {
		if j, err := s.to.submitted(s.owner(), key); err != nil || j.ID != 0 {
			return cmp.Or(err, usedKey(&j, s.key, why))
		}
	}
	return nil
}

// owner is the user of the submission: all its jobs have one.
func (s *Submission) owner() string {
	if len(s.uploads) == 0 {
		return ""
	}
	return s.uploads[0].meta.Owner
}

// submitted returns the job a user submitted with a key, zero if there is none.
func (q *Queue) submitted(owner, key string) (job.Job, error) {
	var id job.ID
	q.ledger.Look(func(x *index.Index) { id, _ = x.JobOf(job.SumOfKey(owner, key)) })
	if id == 0 {
		return job.Job{}, nil
	}
	j, err := q.content.Job(id)
	switch {
	case errors.Is(err, ledger.ErrNoJob): // culled meanwhile
		return job.Job{}, nil
	case err != nil:
		return job.Job{}, err
	case j.Key != key || j.Owner != owner: // the job may be somebody else's
		return job.Job{}, fmt.Errorf("%w: key %q cannot be told from another one by its sum, take another key", ErrKeyUsed, key)
	}
	return j, nil
}

// matches refuses a job that is not the one of the upload.
func (d *Upload) matches(j *job.Job) error {
	if _, err := d.checked(); err != nil {
		return err
	}
	sum := d.sha256()
	if j.Size != d.size || j.Digest(digest.SHA256) != digest.NewValue(digest.SHA256, sum[:]) {
		return usedKey(j, d.meta.Key, "has another payload")
	}
	return nil
}

func usedKey(j *job.Job, key, why string) error {
	return fmt.Errorf("%w: %v of key %q %s", ErrKeyUsed, j.ID, key, why)
}

// keyWait is how long Claim waits for another request at most.
const keyWait = 30 * time.Second

// keyClaims are the keys of requests on their way. They are safe for concurrent use. The
// zero value is ready for use.
type keyClaims struct {
	mu sync.Mutex
	on map[job.KeySum]chan struct{} // closed at the end of the request
}

// claim claims all of the keys, or none. It waits for requests with one of them, up to
// [keyWait] or the end of ctx; then the error is [ErrKeyBusy]. sleep returns an error if ctx
// ends, or the service stops, before wake is closed. Call release in the end.
func (c *keyClaims) claim(ctx context.Context, sums []job.KeySum, sleep func(ctx context.Context, wake <-chan struct{}) error) (release func(), err error) {
	limited, cancel := context.WithTimeout(ctx, keyWait)
	defer cancel()
	for {
		busy := c.try(sums)
		if busy == nil {
			return func() { c.release(sums) }, nil
		}
		if err := sleep(limited, busy); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = ErrKeyBusy
			}
			return nil, err
		}
	}
}

// try claims the keys. If one is claimed already it returns the channel of that claim.
func (c *keyClaims) try(sums []job.KeySum) (busy <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range sums {
		if wake := c.on[k]; wake != nil {
			return wake
		}
	}
	if c.on == nil {
		c.on = map[job.KeySum]chan struct{}{}
	}
	wake := make(chan struct{})
	for _, k := range sums {
		c.on[k] = wake
	}
	return nil
}

func (c *keyClaims) release(sums []job.KeySum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.on[sums[0]])
	for _, k := range sums {
		delete(c.on, k)
	}
}

// keyRemembered is how long a job consumed without a lease is given again for its key.
const keyRemembered = 5 * time.Minute

// mostKeys is how many keys of consumers a queue remembers. Beyond it the key with the
// earliest end is forgotten; about 150 bytes each.
const mostKeys = 1 << 20

// keyTakes are the jobs consumed by requests with keys. They are safe for concurrent use.
// The zero value is ready for use.
type keyTakes struct {
	mu   sync.Mutex
	jobs map[job.KeySum][]take
	ends index.Deadlines // of the keys, by their sums
}

// A take is a consumed job, and its last change that has come in.
type take struct {
	id  job.ID
	seq job.Seq
}

// keyEnds returns until when a consumed job is given again for its key: the end of its
// lease, or [keyRemembered] after its consumption.
func keyEnds(j *job.Job) time.Time {
	if !j.Lease.Ends.IsZero() {
		return j.Lease.Ends
	}
	return j.Consumed.Add(keyRemembered)
}

// follow takes a change of a job in. Two changes of a job may come in any order.
func (t *keyTakes) follow(before, after *job.Job) {
	if before.ConsumerKey == "" && after.ConsumerKey == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before.ConsumerKey != after.ConsumerKey && before.ConsumerKey != "" {
		t.drop(job.SumOfKey("", before.ConsumerKey), before)
	}
	if after.ConsumerKey == "" {
		return
	}
	k := job.SumOfKey("", after.ConsumerKey)
	if i := slices.IndexFunc(t.jobs[k], func(o take) bool { return o.id == after.ID }); i >= 0 {
		t.jobs[k][i].seq = max(t.jobs[k][i].seq, after.Seq)
	} else {
		t.forget(after.Consumed.UnixMicro())
		if t.jobs == nil {
			t.jobs = map[job.KeySum][]take{}
		}
		t.jobs[k] = append(t.jobs[k], take{after.ID, after.Seq})
	}
	ends := keyEnds(after).UnixMicro()
	if was, ok := t.ends.At(job.ID(k)); !ok || was < ends {
		t.ends.Set(job.ID(k), ends)
	}
}

// with returns the jobs consumed with a key, as [job.Job] has it, in their order. Some may
// have changed since.
func (t *keyTakes) with(key string) []job.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []job.ID
	for _, o := range t.jobs[job.SumOfKey("", key)] {
		ids = append(ids, o.id)
	}
	slices.Sort(ids)
	return ids
}

// drop takes a job out, unless it was consumed again since.
func (t *keyTakes) drop(k job.KeySum, before *job.Job) {
	jobs := slices.DeleteFunc(t.jobs[k], func(o take) bool { return o.id == before.ID && o.seq <= before.Seq })
	if len(jobs) > 0 {
		t.jobs[k] = jobs
		return
	}
	delete(t.jobs, k)
	t.ends.Set(job.ID(k), 0)
}

// forget forgets keys with an end up to now, and one more if there are too many.
func (t *keyTakes) forget(now int64) {
	var over []job.ID
	t.ends.Due(now, func(k job.ID) bool {
		over = append(over, k)
		return true
	})
	if len(over) == 0 && len(t.jobs) >= mostKeys {
		t.ends.Due(1<<62, func(k job.ID) bool { // the first visited ends first
			over = append(over, k)
			return false
		})
	}
	for _, k := range over {
		delete(t.jobs, job.KeySum(k))
		t.ends.Set(k, 0)
	}
}

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
	key, now := job.ConsumerKey(t.User, t.Key), job.Instant(q.svc.now())
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
