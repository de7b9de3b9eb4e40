package queuefs

import (
	"time"

	"cutie/queuefs/digest"

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

// Limits and defaults of descriptions.
const (
	MaxSidecar       = job.MaxSidecar
	DefaultMediaType = job.DefaultMediaType
	NotStarted       = job.NotStarted
	LateResults      = job.LateResults
)

// CheckText refuses a sidecar that is not text; the error wraps [ErrSidecar].
func CheckText(sidecar string) error { return job.CheckText(sidecar) }

// ParseJobID accepts the output of JobID.String only. The error wraps
// [ErrBadName], as in the other functions here.
func ParseJobID(s string) (JobID, error) { return job.ParseID(s) }

// ParseStatus accepts "pending", "consumed" and "deleted".
func ParseStatus(s string) (Status, error) { return job.ParseStatus(s) }

// ParseKind accepts the output of Kind.String only.
func ParseKind(s string) (Kind, error) { return job.ParseKind(s) }

// ParseOutcome accepts "completed", "error" and "aborted".
func ParseOutcome(s string) (Outcome, error) { return job.ParseOutcome(s) }

// FormatTime returns t as it stands in job files.
func FormatTime(t time.Time) string { return job.FormatTime(t) }

// ParseAcknowledge accepts "none", "required" and "timeout".
func ParseAcknowledge(s string) (Acknowledge, error) { return job.ParseAcknowledge(s) }

// CheckKey refuses malformed keys of submissions and takes.
func CheckKey(key string) error { return job.CheckKey(key) }

// PartKey returns the key of job n, from 1 on, of several ones submitted with a key.
func PartKey(key string, n int) string { return job.PartKey(key, n) }

// CheckResultName refuses malformed names of results.
func CheckResultName(name string) error { return job.CheckResultName(name) }

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

	// The facts of a mirror and its original.
	Mirror         = home.Mirror
	MirrorAudit    = home.Audit
	MirrorProgress = home.Progress
)

// Version is the version of this implementation, Scheme the service scheme.
const (
	Version = home.Version
	Scheme  = home.Scheme
)

// DefaultLease is the lease of a queue without a setting, if it needs one; MaxLease
// is the longest lease.
const (
	DefaultLease = home.DefaultLease
	MaxLease     = home.MaxLease
)

// Init makes an empty home in the directory dir, and makes dir, for its owner
// alone, if need be. The error is [fs.ErrExist] if it is a home already.
func Init(dir string, info ServiceInfo) error { return home.Init(dir, info) }

// Unmade reports whether a directory is not there, is empty, or has only the
// remains of a broken-off Init.
func Unmade(dir string) (bool, error) { return home.Unmade(dir) }

// FormatDigests returns the property digests of a queue, such as "SHA-256 MD5";
// it is "" for no digests but SHA-256.
func FormatDigests(s digest.Set) string { return home.FormatDigests(s) }

// NoDumps says that no set of resources has dumps.
const NoDumps = home.NoDumps

// ParseDumps reads the property dumps of a queue: the sets of resources with dumps, or
// [NoDumps].
func ParseDumps(names string) (string, error) { return home.ParseDumps(names) }

// ParseDigests reads names of digests, such as "SHA-256 MD5". The result leaves
// out SHA-256, which is always computed.
func ParseDigests(names string) (digest.Set, error) { return home.ParseDigests(names) }

// Unlimited is a limit set to none.
const Unlimited = job.Unlimited

// ParseLimits reads limits such as "pending=100,active=1000".
func ParseLimits(text string) (Limits, error) { return job.ParseLimits(text) }
