// Package quota keeps users within their limits in a queue: jobs made and not
// started, jobs waiting or in work, and the bytes of their payloads. Requests
// without a name are one user together.
//
// The owner of a job is in its job file alone, so a [Keeper] reads each job file of a
// waiting job once. A page of the index is counted again after a change.
// If more than 32,768 jobs of a queue wait, the oldest do not count.
package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
)

// Made is the element of job files of jobs made by UWS.
const Made = "uws-id"

type limitsKey struct{}

// WithLimits adds the limits of a user to the context of a request. They hold
// over those of the queue.
func WithLimits(ctx context.Context, l job.Limits) context.Context {
	return context.WithValue(ctx, limitsKey{}, l)
}

// LimitsOf returns the limits of the user in a queue, where set.
func LimitsOf(ctx context.Context, info *home.QueueInfo) job.Limits {
	if own, ok := ctx.Value(limitsKey{}).(job.Limits); ok {
		return own.Over(info.Limits)
	}
	return info.Limits
}

// A Use is what a user has in a queue, or asks for.
type Use struct {
	Pending, Active int64 // jobs
	Upload          int64 // bytes
}

func (u *Use) add(v Use, times int64) {
	u.Pending += times * v.Pending
	u.Active += times * v.Active
	u.Upload += times * v.Upload
}

func (u Use) and(v Use) Use {
	u.add(v, 1)
	return u
}

// A Keeper counts the jobs of users. It is safe for concurrent use.
type Keeper struct {
	svc *queuefs.Service

	mu     sync.Mutex
	queues map[string]*tally // by identifier
}

// New returns a Keeper of a service.
func New(svc *queuefs.Service) *Keeper { return &Keeper{svc: svc, queues: map[string]*tally{}} }

// Admit refuses a request of a user for more jobs than the limits allow: a
// [*web.Error] of status 429 with the reason. Limits not set in l are those of
// usual, for jobs made by UWS alone: others may fill a queue as before. done ends the claim,
// once the jobs are in the queue or were refused.
func (k *Keeper) Admit(q *queuefs.Queue, owner string, l, usual job.Limits, ask Use) (done func(), err error) {
	all := l.Over(usual)
	if all.Pending <= 0 && all.Active <= 0 && all.Upload <= 0 {
		return func() {}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tally(q)
	has := t.asked[owner]
	if t.needed(l, usual, ask, has) {
		counted, made, err := t.use(owner)
		if err != nil {
			return nil, err
		}
		has.add(choose(l, counted, made), 1)
	}
	name := owner
	if name == "" {
		name = "everybody without a name"
	}
	for _, one := range []struct {
		ask, has, most int64
		what, way      string
	}{
		{ask.Pending, has.Pending, all.Pending, "jobs that are made and not started", "start or destroy some"},
		{ask.Active, has.Active, all.Active, "jobs that wait or are in work", "wait for some to end, or delete some"},
		{ask.Upload, has.Upload, all.Upload, "octets in jobs that have not ended", "wait for some to end, or delete some"},
	} {
		if one.most > 0 && one.ask > 0 && one.has+one.ask > one.most {
			return nil, web.Errorf(http.StatusTooManyRequests, "%s: %s has %d %s, and may have %d; %s", q.ID(), name, one.has, one.what, one.most, one.way)
		}
	}
	claim := t.asked[owner]
	claim.add(ask, 1)
	t.asked[owner] = claim
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		claim := t.asked[owner]
		if claim.add(ask, -1); claim == (Use{}) {
			delete(t.asked, owner)
		} else {
			t.asked[owner] = claim
		}
	}), nil
}

// Admission refuses jobs of a user beyond the limits in the context of a request, and
// those of the queue. Without either there are none. It also refuses those of a user who has
// lost the right since the request began: a long upload may outlive a token.
func (k *Keeper) Admission(ctx context.Context, q *queuefs.Queue, owner string) queuefs.Admission {
	info := q.Info()
	limits := LimitsOf(ctx, &info)
	limits.Pending = 0 // of UWS alone
	return func(jobs, bytes int64) (done func(), err error) {
		if err := web.Still(ctx); err != nil {
			return nil, err
		}
		return k.Admit(q, owner, limits, job.Limits{}, Use{Active: jobs, Upload: bytes})
	}
}

// Use returns what a user has in a queue, as it counts for Admit.
func (k *Keeper) Use(q *queuefs.Queue, owner string, l job.Limits) (Use, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	counted, made, err := k.tally(q).use(owner)
	return choose(l, counted, made), err
}

// choose returns the count for each limit: all jobs if it is set in l, else jobs
// made by UWS.
func choose(l job.Limits, counted, made Use) Use {
	if l.Pending != 0 {
		made.Pending = counted.Pending
	}
	if l.Active != 0 {
		made.Active = counted.Active
	}
	if l.Upload != 0 {
		made.Upload = counted.Upload
	}
	return made
}

// tally returns the tally of a queue, and forgets removed queues.
func (k *Keeper) tally(q *queuefs.Queue) *tally {
	if t := k.queues[q.ID()]; t != nil && t.q == q {
		return t
	}
	for id, t := range k.queues {
		if now, err := k.svc.Queue(id); err != nil || now != t.q {
			delete(k.queues, id)
		}
	}
	t := &tally{q: q, asked: map[string]Use{}, pages: map[int]*page{}, names: map[string]string{}}
	k.queues[q.ID()] = t
	return t
}

// A tally is the count of the jobs of a queue, by owner.
type tally struct {
	q     *queuefs.Queue
	asked map[string]Use // on its way into the queue
	pages map[int]*page
	names map[string]string // one copy of each owner
}

// A page is the count of one page of the index.
type page struct {
	version job.Seq
	jobs    map[job.ID]whose // waiting, or in work
	uses    map[string]Use   // of all of them
	made    map[string]Use   // of those made by UWS
}

// A whose is the constant part of a job file.
type whose struct {
	owner            string
	made, notStarted bool
}

// small is how many bytes a usual limit does not count jobs for.
const small = 64 << 10

// most is how many waiting jobs are counted, and up to a page more.
const most = 32 << 10

// needed reports whether jobs have to be counted. All jobs of the queue together may
// be within the limits.
func (t *tally) needed(set, usual job.Limits, ask, has Use) bool {
	s, l := t.q.State(), set.Over(usual)
	within := func(all, has, ask, most int64) bool { return most <= 0 || ask == 0 || all+has+ask <= most }
	return !within(s.Held, has.Pending, ask.Pending, l.Pending) ||
		!within(s.Pending+s.Leased, has.Active, ask.Active, l.Active) ||
		set.Upload > 0 && ask.Upload > 0 || l.Upload > 0 && ask.Upload > small
}

// use counts the jobs of an owner: all, and the ones made by UWS.
func (t *tally) use(owner string) (u, made Use, err error) {
	// Versions are read first: a change during the count makes another count
	// necessary.
	versions := t.waiting()
	maps.DeleteFunc(t.pages, func(i int, _ *page) bool { _, counts := versions[i]; return !counts })
	changed := maps.Clone(versions)
	maps.DeleteFunc(changed, func(i int, version job.Seq) bool { return t.pages[i] != nil && t.pages[i].version == version })
	if len(changed) > 0 {
		held, leased := t.standing(slices.Min(slices.Collect(maps.Keys(changed))))
		for i, version := range changed {
			p, err := t.count(i, version, held, leased)
			if err != nil {
				return u, made, err
			}
			t.pages[i] = p
		}
	}
	for _, p := range t.pages {
		u.add(p.uses[owner], 1)
		made.add(p.made[owner], 1)
	}
	return u, made, nil
}

// waiting returns the versions of the last pages with jobs that wait or are in work.
func (t *tally) waiting() map[int]job.Seq {
	busy := map[int]bool{}
	for _, id := range t.q.Leased() {
		busy[int(id/index.PageJobs)] = true
	}
	versions := map[int]job.Seq{}
	jobs := 0
	for i := t.q.Pages() - 1; i >= 0 && jobs < most; i-- {
		if version, _, pending, _ := t.q.PageVersion(i); pending > 0 || busy[i] {
			versions[i] = version
			jobs += pending
		}
	}
	return versions
}

// standing returns the jobs on hold, from a page on, and those in work.
func (t *tally) standing(first int) (held, leased map[job.ID]bool) {
	held, leased = map[job.ID]bool{}, map[job.ID]bool{}
	if t.q.State().Held > 0 {
		after := job.ID(max(1, first*index.PageJobs)) - 1
		for _, id := range t.q.IDs(index.Filter{Held: true, After: after, Limit: most + index.PageJobs}) {
			held[id] = true
		}
	}
	for _, id := range t.q.Leased() {
		leased[id] = true
	}
	return held, leased
}

// count counts a page, with the help of its last count.
func (t *tally) count(n int, version job.Seq, held, leased map[job.ID]bool) (*page, error) {
	last := t.pages[n]
	entries, _, _ := t.q.Page(n, nil)
	p := &page{version: version, jobs: map[job.ID]whose{}, uses: map[string]Use{}, made: map[string]Use{}}
	for i := range entries {
		e := &entries[i]
		if e.Status != job.Pending && !leased[e.Job] {
			continue
		}
		of, known := whose{}, false
		if last != nil {
			of, known = last.jobs[e.Job]
		}
		// A job on hold may be held by its submitter or by an operator.
		if !known || held[e.Job] && !of.notStarted {
			j, err := t.q.Job(e.Job)
			if errors.Is(err, ledger.ErrNoJob) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("limits of users: %w", err)
			}
			of = whose{t.name(j.Owner), j.Extra.Value(Made) != "", j.HeldFor == job.NotStarted}
		}
		p.jobs[e.Job] = of
		one := Use{Active: 1, Upload: e.Payload.Length}
		if held[e.Job] && of.notStarted {
			one.Pending, one.Active = 1, 0
		}
		p.uses[of.owner] = p.uses[of.owner].and(one)
		if of.made {
			p.made[of.owner] = p.made[of.owner].and(one)
		}
	}
	return p, nil
}

// name returns an owner, kept once.
func (t *tally) name(owner string) string {
	if name, ok := t.names[owner]; ok {
		return name
	}
	t.names[owner] = owner
	return owner
}
