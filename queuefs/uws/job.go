package uws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/quota"
)

// Elements of the job file for UWS alone; see the package comment.
const (
	elemID        = quota.Made
	elemCreated   = "uws-created"
	elemRunID     = "uws-runid"
	elemUpload    = "uws-upload"
	elemPart      = "uws-part"
	elemDuration  = "uws-duration"
	elemDestroyed = "uws-destroyed"
	elemArchived  = "uws-archived"
)

// A view is one queue as clients of UWS see it.
type view struct {
	q   *queuefs.Queue
	set settings
}

func viewOf(q *queuefs.Queue) view {
	info := q.Info()
	return view{q, settingsOf(&info)}
}

// A job is a job of the queue as clients of UWS see it.
type job struct {
	view
	id  string
	cut queuefs.Job
	bad error // of [Check]: the phase is UNKNOWN
}

// as returns a job of the queue under an identifier.
func (v view) as(id string, cut *queuefs.Job) *job {
	return &job{view: v, id: id, cut: *cut, bad: Check(cut)}
}

var errNoJob = errors.New("job not found")

// find returns a job. The error of a destroyed one is errNoJob. A job with
// parameters that were changed is the last one of several jobs of the queue; its
// identifier has the number of the first.
func (v view) find(id string) (*job, error) {
	n, err := queuefs.ParseJobID(id)
	if err != nil {
		if !isMade(id) {
			return nil, errNoJob
		}
		n = numberOf(id)
	}
	for {
		cut, err := v.q.Job(n)
		if errors.Is(err, queuefs.ErrNoJob) {
			return nil, errNoJob
		}
		if err != nil {
			return nil, err
		}
		if nameless(&cut) { // it has no identifier to compare
			return v.as(id, &cut), nil
		}
		if v.idOf(&cut) != id {
			return nil, errNoJob
		}
		if next := replacedBy(&cut); isMade(id) && next > cut.ID {
			n = next
			continue
		}
		j := v.as(id, &cut)
		if j.destroyed() {
			return nil, errNoJob
		}
		return j, nil
	}
}

// idOf returns the identifier of a job of the queue: its number, unless the job
// was made here.
func (v view) idOf(cut *queuefs.Job) string {
	if id := cut.Extra.Value(elemID); isMade(id) {
		n := numberOf(id)
		if st, _ := v.q.Status(n); st != 0 && n <= cut.ID {
			return id
		}
	}
	return cut.ID.String()
}

// listed returns a job of the queue, nil if it was destroyed or replaced.
func (v view) listed(cut *queuefs.Job) *job {
	j := v.as(v.idOf(cut), cut)
	if j.destroyed() || isMade(j.id) && replacedBy(cut) != 0 {
		return nil
	}
	return j
}

// replacedBy returns the job in the place of another one, 0 for none.
func replacedBy(cut *queuefs.Job) queuefs.JobID {
	n, _ := queuefs.ParseJobID(cut.Extra.Value("requeuedAs"))
	return n
}

func (j *job) phase() phase {
	switch c := &j.cut; {
	case j.bad != nil:
		return unknown
	case j.archived():
		return archived
	case c.Status == queuefs.Deleted || c.Outcome == queuefs.Aborted:
		return aborted
	case c.Status == queuefs.Pending && c.HeldFor == queuefs.NotStarted:
		return pending
	case c.Status == queuefs.Pending && (c.Held.IsZero() || !c.HeldUntil.IsZero()): // it will run by itself
		return queued
	case c.Status == queuefs.Pending:
		return held
	case c.Outcome == queuefs.Failed:
		return failed
	case c.Outcome == queuefs.Completed, c.Lease.Ends.IsZero():
		return completed
	}
	return executing
}

// destroyed reports whether the job was destroyed. A requeue by an operator
// changes nothing.
func (j *job) destroyed() bool { return j.cut.Extra.Value(elemDestroyed) != "" }

// archived reports whether the job is ARCHIVED: it is until an operator
// requeues it.
func (j *job) archived() bool {
	at := j.archivedAt()
	return !at.IsZero() && !j.cut.Requeued.After(at)
}

func (j *job) archivedAt() time.Time {
	at, _ := parseTime(j.cut.Extra.Value(elemArchived))
	return at
}

// reported reports whether a consumer reported the outcome.
func (j *job) reported() bool { return j.cut.Outcome != 0 }

// created returns the creation, never later than the submission.
func (j *job) created() time.Time {
	t := stamp(j.cut.Submitted)
	if made, err := parseTime(j.cut.Extra.Value(elemCreated)); err == nil && made.Before(t) {
		t = stamp(made)
	}
	return t
}

// ran returns when the work on the job began and ended, zero if it did not.
func (j *job) ran() (start, end time.Time) {
	c := &j.cut
	switch start = c.Begun(); {
	case !c.Finished.IsZero():
		end = c.Finished
	case !c.Deleted.IsZero():
		end = c.Deleted
	case j.phase() == completed || j.phase() == archived:
		end = c.Consumed // nobody will say more
	}
	return start, end
}

func (j *job) owner() string { return j.cut.Owner }
func (j *job) runID() string { return j.cut.Extra.Value(elemRunID) }

// duration returns the seconds the job may run, 0 for no limit.
func (j *job) duration() int64 {
	if n, err := strconv.ParseInt(j.cut.Extra.Value(elemDuration), 10, 32); err == nil && n >= 0 {
		return n
	}
	return j.set.duration
}

// destruction returns when the job is destroyed, or was archived; zero for
// never.
func (j *job) destruction() time.Time {
	if j.cut.Destruction.IsZero() {
		return j.archivedAt()
	}
	return j.cut.Destruction
}

// A parameter is one as clients see it; ref means by reference.
type parameter struct {
	pair
	ref bool
}

// payloadName is the parameter of an opaque payload.
const payloadName = "payload"

// pairs returns the parameters without files.
func (j *job) pairs() []pair {
	pairs, _ := parsePairs(j.cut.Sidecar)
	return pairs
}

// uploads returns the names of the files.
func (j *job) uploads() (names []string) {
	for _, p := range partsOf(&j.cut) {
		names = append(names, p.name)
	}
	if name := j.cut.Extra.Value(elemUpload); name != "" && names == nil {
		names = []string{name}
	}
	return names
}

// parameters returns all parameters, in the order of the request.
func (j *job) parameters() (list []parameter) {
	if j.bad != nil {
		return nil
	}
	pairs := j.pairs()
	for _, p := range pairs {
		list = append(list, parameter{p, false})
	}
	files := j.uploads()
	for _, name := range files {
		list = append(list, parameter{pair{name: name}, true})
	}
	if files == nil && (j.cut.Extra.Value(elemID) == "" || pairs == nil && j.cut.Size > 0) {
		list = append(list, parameter{pair{name: payloadName}, true})
	}
	return list
}

// failure returns the first line of the message of a failed or aborted job, ""
// for others, and the whole message.
func (j *job) failure() (summary, detail string, transient bool) {
	if j.cut.Outcome != queuefs.Failed && j.cut.Outcome != queuefs.Aborted {
		return "", "", false
	}
	detail = j.cut.Message
	if j.cut.Outcome == queuefs.Failed && detail == "" {
		detail = "the job failed and its worker gave no reason"
	}
	summary, _, _ = strings.Cut(strings.TrimSpace(detail), "\n")
	if r := []rune(summary); len(r) > 300 {
		summary = string(r[:299]) + "…"
	}
	return summary, detail, j.cut.Transient
}

// hasDetail reports whether a worker handed in the detail of the error.
func (j *job) hasDetail() bool {
	_, ok := j.cut.ErrorDetail()
	return ok
}

func (j *job) results() []queuefs.Result {
	if p := j.phase(); p == archived || p == unknown {
		return nil
	}
	return j.cut.Results
}

// with returns r with one element of the name, or without it for the value "".
func with(r anvl.Record, name, value string) (changed anvl.Record) {
	for _, e := range r {
		if !strings.EqualFold(e.Name, name) {
			changed = append(changed, e)
		}
	}
	if value != "" {
		changed.Add(name, value)
	}
	return changed
}

// quote returns when a job ends at the latest (UWS 1.1, 2.1.6): after the time that the
// queue expects jobs to take, or else after the longest that this job may run, from its
// start or from now. It is zero, unknown, without either and in a paused queue.
func (h *Handler) quote(j *job) time.Time {
	now := h.now()
	takes := cmp.Or(j.set.takes, time.Duration(j.duration())*time.Second)
	if takes == 0 {
		return time.Time{}
	}
	switch j.phase() {
	case executing:
		start, _ := j.ran()
		if t := start.Add(takes); t.After(now) {
			return stamp(t)
		}
		return stamp(now)
	case pending, queued:
		if j.q.Info().Paused.IsZero() {
			return stamp(now.Add(takes))
		}
	}
	return time.Time{}
}

// Check returns why the elements of UWS in a job file make no sense, nil if they
// do. The phase of a job with a damaged or lost job file is UNKNOWN: its
// elements cannot be believed, and clients ask again until an operator has
// mended it. Nobody gets its parameters and results here meanwhile, since its
// owner is not known for sure.
func Check(cut *queuefs.Job) error {
	if cut.Lost() {
		return errors.New("the job file is lost, and the elements of UWS with it")
	}
	for _, e := range cut.Extra {
		var err error
		switch e.Name {
		case elemID:
			if nameless(cut) {
				err = errors.New("no identifier of a job")
			}
		case elemCreated, elemDestroyed, elemArchived:
			_, err = parseTime(e.Value)
		case elemDuration:
			if n, e := strconv.ParseInt(e.Value, 10, 32); e != nil || n < 0 {
				err = errors.New("no number of seconds")
			}
		case elemPart:
			if p, ok := parsePart(e.Value); !ok || p.at+p.head+p.size > cut.Size {
				err = errors.New("no part of the payload")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %.60q: %w", e.Name, e.Value, err)
		}
	}
	return nil
}

// nameless reports whether a damaged job file has lost the identifier of a job.
func nameless(cut *queuefs.Job) bool {
	id := cut.Extra.Value(elemID)
	_, err := queuefs.ParseJobID(id)
	return cut.Lost() || id != "" && err != nil && !isMade(id)
}

// Tick aborts jobs at the end of their execution duration, and destroys or
// archives jobs at their destruction. Call it a few times a second: its cost
// grows with the jobs due and in work.
func (h *Handler) Tick(ctx context.Context) error {
	h.ticking.Lock()
	defer h.ticking.Unlock()
	var errs error
	limits := map[*queuefs.Queue]map[queuefs.JobID]limit{}
	for _, q := range h.svc.Timed() {
		v := viewOf(q)
		next, err := h.stopOverdue(ctx, v, h.limits[q])
		limits[q] = next
		if err = errors.Join(err, h.destroyDue(ctx, v)); err != nil && !errors.Is(err, queuefs.ErrNoQueue) && ctx.Err() == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	h.limits = limits
	return errors.Join(errs, ctx.Err())
}

// A limit is the end of the execution duration of a job in work.
type limit struct {
	changed time.Time // last event of the job
	allowed int64     // seconds by the settings of the queue
	began   time.Time
	until   time.Time // zero: no limit
}

// stopOverdue aborts jobs at the end of their execution duration. It returns the
// limits of those in work, for the next time.
func (h *Handler) stopOverdue(ctx context.Context, v view, known map[queuefs.JobID]limit) (map[queuefs.JobID]limit, error) {
	next := map[queuefs.JobID]limit{}
	for _, id := range v.q.Leased() {
		l, err := v.limitOf(id, known[id])
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			return next, err
		}
		if l.until.IsZero() || h.o.Now().Before(l.until) {
			next[id] = l
			continue
		}
		_, err = v.q.AbortAttempt(ctx, id, l.began, "execution duration exceeded")
		if err != nil && !errors.Is(err, queuefs.ErrConflict) && !errors.Is(err, queuefs.ErrNoJob) {
			return next, err
		}
	}
	return next, nil
}

// limitOf returns the limit of a job in work. It reads the job file only after
// a change.
func (v view) limitOf(id queuefs.JobID, known limit) (limit, error) {
	_, changed := v.q.Status(id)
	if !known.changed.IsZero() && known.changed.Equal(changed) && known.allowed == v.set.duration {
		return known, nil
	}
	cut, err := v.q.Job(id)
	if err != nil {
		return limit{}, err
	}
	l := limit{changed: changed, allowed: v.set.duration, began: cut.Consumed}
	if j := v.listed(&cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			l.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return l, nil
}

// dueAtOnce is how many jobs of a queue one Tick destroys.
const dueAtOnce = 1000

// destroyDue destroys or archives the due jobs. The next Tick tries failed ones
// again.
func (h *Handler) destroyDue(ctx context.Context, v view) error {
	ids, err := v.q.Due(ctx, h.now(), dueAtOnce)
	for _, id := range ids {
		if e := h.destroyNow(ctx, v, id); err == nil {
			err = e
		}
	}
	return err
}

// destroyNow destroys or archives a job if it is still due.
func (h *Handler) destroyNow(ctx context.Context, v view, id queuefs.JobID) error {
	cut, err := v.q.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.lock(v.q, v.idOf(&cut))()
	cut, err = v.q.Job(id)
	if errors.Is(err, queuefs.ErrNoJob) || err == nil && (cut.Destruction.IsZero() || cut.Destruction.After(h.now())) {
		return nil // it was changed meanwhile
	}
	if err != nil {
		return err
	}
	j := v.as(v.idOf(&cut), &cut)
	if err := j.destroy(ctx, h.now(), v.set.archive); err != nil {
		return fmt.Errorf("job %s: %w", j.id, err)
	}
	return nil
}
