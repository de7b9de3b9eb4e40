package queuefs

import (
	"time"

	"cutie/queuefs/home"
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

	Job         = job.Job
	Meta        = job.Meta
	Lease       = job.Lease
	Result      = job.Result
	Conclusion  = job.Conclusion
	Acknowledge = job.Acknowledge
	Event       = job.Event
	Facts       = job.Facts
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

// Meanings of a silent consumer.
const (
	AckNone     = job.AckNone
	AckRequired = job.AckRequired
	AckTimeout  = job.AckTimeout
)

// DefaultMediaType is the one of a payload of which none was given.
const DefaultMediaType = job.DefaultMediaType

// ParseJobID accepts the output of JobID.String only. The error wraps
// [ErrBadName], as in the other functions here.
func ParseJobID(s string) (JobID, error) { return job.ParseID(s) }

// ParseStatus accepts "pending", "consumed" and "deleted".
func ParseStatus(s string) (Status, error) { return job.ParseStatus(s) }

// FormatTime returns t as it stands in job files.
func FormatTime(t time.Time) string { return job.FormatTime(t) }

// CleanQueueID makes a directory name and URL segment of a queue identifier.
func CleanQueueID(name string) (string, error) { return job.CleanQueueID(name) }

// PageJobs is how many job numbers a page has: page p has the jobs p*PageJobs to
// (p+1)*PageJobs-1.
const PageJobs = index.PageJobs

// The words of package home, under the names of this package.
type (
	ServiceInfo = home.ServiceInfo
	QueueInfo   = home.QueueInfo
	UWS         = home.UWS
	Limits      = job.Limits
	Mirror      = home.Mirror
)

// Version is the version of this implementation, Scheme the service scheme.
const (
	Version = home.Version
	Scheme  = home.Scheme
)

// Init makes an empty home in the directory dir, and makes dir, for its owner
// alone, if need be. The error is [fs.ErrExist] if it is a home already.
func Init(dir string, info ServiceInfo) error { return home.Init(dir, info) }
