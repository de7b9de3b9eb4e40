package uws

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/quota"
	"cutie/queuefs/state"
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

// A job is a job of the queue as clients of UWS see it.
type job struct {
	id   string
	list *jobList
	q    *queuefs.Queue
	set  settings
	cut  queuefs.Job
	bad  error // of [Check]: the phase is UNKNOWN

	once sync.Once
	base state.Base // of doc
	doc  *document  // see [Handler.document]
}

// jobAs returns a job of the queue under an identifier.
func (l *jobList) jobAs(set settings, id string, cut *queuefs.Job) *job {
	return &job{id: id, list: l, q: l.q, set: set, cut: *cut, bad: Check(cut)}
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
