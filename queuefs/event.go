package queuefs

import (
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// The words of package job, under the names of this package.
type (
	JobID   = job.ID
	Seq     = job.Seq
	Status  = job.Status
	Kind    = job.Kind
	Outcome = job.Outcome
)

// Where jobs stand.
const (
	Pending  = job.Pending
	Consumed = job.Consumed
	Deleted  = job.Deleted
)

// Kinds of events.
const (
	Submit   = job.Submit
	Consume  = job.Consume
	Delete   = job.Delete
	Requeue  = job.Requeue
	Cull     = job.Cull
	Update   = job.Update
	Hold     = job.Hold
	Release  = job.Release
	Extend   = job.Extend
	Conclude = job.Conclude
	Phase    = job.Phase
)

// Outcomes of consumed jobs.
const (
	Completed = job.Completed
	Failed    = job.Failed
	Aborted   = job.Aborted
)

// ParseJobID accepts the output of JobID.String only. The error wraps
// [ErrBadName], as in the other functions here.
func ParseJobID(s string) (JobID, error) { return job.ParseID(s) }

// ParseStatus accepts "pending", "consumed" and "deleted".
func ParseStatus(s string) (Status, error) { return job.ParseStatus(s) }

// ParseKind accepts the output of Kind.String only.
func ParseKind(s string) (Kind, error) { return job.ParseKind(s) }

// ParseOutcome accepts "completed", "error" and "aborted".
func ParseOutcome(s string) (Outcome, error) { return job.ParseOutcome(s) }

// An Event is one entry of a queue's history, on stable storage. It is of a
// job or of queue-info.txt.
type Event struct {
	Seq      Seq
	Time     time.Time // UTC, microseconds, strictly increasing within a queue
	Kind     Kind
	Job      JobID  // 0: the event is of queue-info.txt
	From, To Status // 0: not in the queue
	Payload  Facts  // zero of queue-info.txt
	File     Facts  // the job file, or queue-info.txt, as this event left it
}

// micro returns an instant of microseconds since 1970.
func micro(us int64) time.Time { return time.UnixMicro(us).UTC() }

// microOrZero is micro where 0 stands for the zero time.
func microOrZero(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return micro(us)
}

// PageJobs is how many job numbers a page has: page p has the jobs p*PageJobs to
// (p+1)*PageJobs-1.
const PageJobs = index.PageJobs

// Facts describe one file for an auditor.
type Facts struct {
	Length   int64 // octets
	SHA256   [32]byte
	MD5      [16]byte  // zero: unknown, as of all but payloads
	Type     string    // media type
	Modified time.Time // UTC, microseconds
}
