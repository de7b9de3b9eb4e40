package uws

import (
	"errors"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
)

// Elements of the job file of a job made here. They never change.
const (
	elemID      = "uws-id"
	elemCreated = "uws-created"
	elemRunID   = "uws-runid"
	elemUpload  = "uws-upload" // name of the parameter that the payload is
	elemPart    = "uws-part"   // a parameter that is a part of the payload; see [part]
)

// A job is one as clients see it: what the queue says of it, and its record.
type job struct {
	id  string
	s   *shelf
	set settings
	rec *record      // nil: it has none
	cut *queuefs.Job // nil: it is not in the queue

	once sync.Once
	doc  *document // see [Handler.document]
}

var errNoJob = errors.New("job not found")

// find returns a job. One that was destroyed is [errNoJob].
func (s *shelf) find(set settings, id string) (*job, error) {
	if !checkID(id) {
		return nil, errNoJob
	}
	rec, err := s.record(id)
	if err != nil {
		return nil, err
	}
	if !isMade(id) {
		n, _ := queuefs.ParseJobID(id)
		cut, err := s.q.Job(n)
		if err != nil {
			return nil, noJob(err)
		}
		if j := s.jobOf(set, &cut); j == nil || j.id != id {
			return nil, errNoJob // it goes by another identifier
		}
		return visible(&job{id: id, s: s, set: set, rec: rec, cut: &cut})
	}
	if rec == nil {
		return nil, errNoJob
	}
	j := &job{id: id, s: s, set: set, rec: rec}
	for n := rec.job; n != 0; {
		cut, err := s.q.Job(n)
		if err != nil {
			return nil, noJob(err)
		}
		if cut.Extra.Value(elemID) != id {
			return nil, errNoJob
		}
		j.cut = &cut
		if n, err = queuefs.ParseJobID(cut.Extra.Value("requeuedAs")); err != nil || n <= cut.ID {
			break // it was not put at the end of the queue again
		}
	}
	return visible(j)
}

func noJob(err error) error {
	if errors.Is(err, queuefs.ErrNoJob) {
		return errNoJob
	}
	return err
}

func visible(j *job) (*job, error) {
	if j.rec != nil && !j.rec.destroyed.IsZero() {
		return nil, errNoJob
	}
	return j, nil
}

// jobOf returns the job that a job of the queue is, nil if it is none: it was
// destroyed, or a later one took its place. A job made elsewhere, whose record
// is not here, goes by its number.
func (s *shelf) jobOf(set settings, cut *queuefs.Job) *job {
	j := &job{id: cut.ID.String(), s: s, set: set, cut: cut}
	if id := cut.Extra.Value(elemID); isMade(id) {
		rec, err := s.record(id)
		if err != nil {
			return nil
		}
		if rec != nil {
			if cut.Extra.Value("requeuedAs") != "" {
				return nil
			}
			j.id, j.rec = id, rec
		}
	}
	if j.rec == nil {
		var err error
		if j.rec, err = s.record(j.id); err != nil {
			return nil
		}
	}
	if j.rec != nil && !j.rec.destroyed.IsZero() {
		return nil
	}
	return j
}

func (j *job) phase() phase {
	switch c := j.cut; {
	case j.isArchived():
		return archived
	case c == nil && !j.rec.aborted.IsZero():
		return aborted
	case c == nil:
		return pending
	case c.Status == queuefs.Deleted || c.Outcome == queuefs.Aborted:
		return aborted
	case c.Status == queuefs.Pending && !c.Held.IsZero():
		return held
	case c.Status == queuefs.Pending:
		return queued
	case c.Outcome == queuefs.Failed:
		return failed
	case c.Outcome == queuefs.Completed, c.Lease.Ends.IsZero():
		return completed
	}
	return executing
}

// unsettled tells whether RUN is on its way or did not come to its end: the job
// may be in the queue.
func (j *job) unsettled() bool { return j.cut == nil && j.rec.from != 0 }

// isArchived tells whether the job is ARCHIVED. One that an operator puts back
// into the queue then is queued again.
func (j *job) isArchived() bool {
	return j.rec != nil && !j.rec.archived.IsZero() && (j.cut == nil || !j.cut.Requeued.After(j.rec.archived))
}

// record makes the job one with a record, which is not kept yet.
func (j *job) record(s *shelf) {
	if j.rec == nil {
		j.rec = &record{id: j.id, created: s.now(j.created()), duration: -1, job: j.cut.ID}
	}
}

// reported tells whether a consumer said what became of the job.
func (j *job) reported() bool { return j.cut != nil && j.cut.Outcome != 0 }

func (j *job) created() time.Time {
	if j.cut == nil {
		return j.rec.created
	}
	return createdOf(j.cut)
}

// createdOf is never later than the submission.
func createdOf(c *queuefs.Job) time.Time {
	t := stamp(c.Submitted)
	if made, err := parseTime(c.Extra.Value(elemCreated)); err == nil && made.Before(t) {
		t = stamp(made)
	}
	return t
}

// ran returns when the work on the job began and ended, zero if it did not.
func (j *job) ran() (start, end time.Time) {
	if j.cut == nil {
		return time.Time{}, j.rec.aborted
	}
	c := j.cut
	switch start = c.Consumed; {
	case !c.Finished.IsZero():
		end = c.Finished
	case !c.Deleted.IsZero():
		end = c.Deleted
	case j.phase() == completed || j.phase() == archived:
		end = c.Consumed // nobody will say more
	}
	return start, end
}

func (j *job) owner() string {
	if j.cut == nil {
		return j.rec.owner
	}
	return j.cut.Owner
}

func (j *job) runID() string {
	if j.cut == nil {
		return j.rec.runID
	}
	return j.cut.Extra.Value(elemRunID)
}

// duration returns the seconds that the job may run, 0 for any time.
func (j *job) duration() int64 {
	if j.rec != nil && j.rec.duration >= 0 {
		return j.rec.duration
	}
	return j.set.duration
}

// destruction returns when the job is destroyed, zero for never.
func (j *job) destruction() time.Time {
	if j.rec == nil {
		return time.Time{}
	}
	return j.rec.destruction
}

// A parameter is one as clients see it; ref means by reference.
type parameter struct {
	pair
	ref bool
}

// payloadName is the parameter that an opaque payload is.
const payloadName = "payload"

// parameters returns those of the job, in the order they came.
func (j *job) parameters() (list []parameter) {
	if j.cut == nil {
		if j.set.opaque && len(j.rec.params) > 0 && len(j.rec.uploads) == 0 {
			return []parameter{{pair{name: payloadName}, true}}
		}
		for _, p := range j.rec.params {
			list = append(list, parameter{p, false})
		}
		for _, u := range j.rec.uploads {
			list = append(list, parameter{pair{name: u.name}, true})
		}
		return list
	}
	if j.phase() == archived {
		return nil
	}
	pairs, _ := parsePairs(j.cut.Sidecar)
	for _, p := range pairs {
		list = append(list, parameter{p, false})
	}
	parts := partsOf(j.cut)
	for _, p := range parts {
		list = append(list, parameter{pair{name: p.name}, true})
	}
	switch name := j.cut.Extra.Value(elemUpload); {
	case len(parts) > 0:
	case name != "":
		list = append(list, parameter{pair{name: name}, true})
	case j.cut.Extra.Value(elemID) == "" || len(pairs) == 0 && j.cut.Size > 0:
		list = append(list, parameter{pair{name: payloadName}, true})
	}
	return list
}

// failure returns what went wrong, "" if nothing did, and its first line.
func (j *job) failure() (summary, detail string, transient bool) {
	if j.cut == nil || j.cut.Outcome != queuefs.Failed && j.cut.Outcome != queuefs.Aborted {
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

func (j *job) results() []queuefs.Result {
	if j.cut == nil || j.phase() == archived {
		return nil
	}
	return j.cut.Results
}
