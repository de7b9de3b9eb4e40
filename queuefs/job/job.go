// Package job has the jobs of a queue, and all words for them: identifiers, event
// numbers, statuses, kinds of events, outcomes, leases, results, names of queues and
// batches. A [Job] is read from its file as it is written: the job file in ANVL
// (Cutie 0.3, 6.5), from which with the payload all else can be made again. The
// package is pure: no disk, no lock, no clock.
package job

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
)

// A Job is an opaque payload with its metadata (Cutie 0.3, 3.3).
type Job struct {
	ID        ID
	Queue     string // cleaned identifier of the queue
	Status    Status
	Seq       Seq            // of its last event
	Filename  string         // a label, never a path; "" if the submitter gave none
	MediaType string         // "" if the submitter gave none
	Submitter string         // user agent; "" if unknown
	Sidecar   string         // octets, stored verbatim
	Size      int64          // octets of the payload
	Digests   []digest.Value // of the payload: SHA-256, those of the queue, those of the submitter
	Batch     string
	Owner     string // authenticated submitter; "" if anonymous
	Key       string // of its submission, the only one in the queue; "" if it has none
	Submitted time.Time
	Requeued  time.Time // last time it went back to pending; zero if never
	Requeues  int       // how often
	Updated   time.Time // last change of its metadata; zero if never
	Consumed  time.Time // last time it was handed out; zero if never
	Consumer  string    // user agent of its consumer
	Attempts  int       // how often it was handed out
	Lease     Lease     // zero if the consumer has none
	// ConsumerKey stands for the key of the request that consumed the job, see
	// [ConsumerKey]. It is "" without one, and at the end of the work.
	ConsumerKey string
	Deleted     time.Time
	Held        time.Time // since then it is passed over; zero if it is not
	HeldFor     string    // why
	HeldUntil   time.Time // then it is released by itself; zero: not by itself
	Outcome     Outcome   // report of the consumer; 0 if none
	Finished    time.Time // when it was reported
	Message     string    // of the outcome; of a pending job, why it was given back
	Transient   bool      // another attempt may go better; only with Failed
	// Destruction is until when the job is retained: culling leaves it alone, and
	// the queue names it as due from then on. Zero if nobody has asked for that.
	Destruction time.Time
	Results     []Result

	EmptySidecar bool // there is a sidecar without octets

	Extra anvl.Record // unknown elements of the job file
}

// DefaultMediaType is the type of payloads without a media type.
const DefaultMediaType = "application/octet-stream"

// Type returns the media type of the payload.
func (j *Job) Type() string {
	if j.MediaType == "" {
		return DefaultMediaType
	}
	return j.MediaType
}

// Modified returns the time of the last event of the job.
func (j *Job) Modified() time.Time {
	t := j.Submitted
	for _, u := range [...]time.Time{j.Requeued, j.Updated, j.Consumed, j.Deleted, j.Held, j.Finished} {
		if u.After(t) {
			t = u
		}
	}
	return t
}

// HasSidecar reports whether the job has a sidecar; it may be empty.
func (j *Job) HasSidecar() bool { return j.Sidecar != "" || j.EmptySidecar }

// Begun returns when the present attempt began, or the last one of a deleted job, zero
// if the job was not handed out since it was last pending.
func (j *Job) Begun() time.Time {
	if j.Status == Pending || j.Consumed.Before(j.Requeued) {
		return time.Time{}
	}
	return j.Consumed
}

// PendingSince returns when the job became pending last: its submission, or a return.
func (j *Job) PendingSince() time.Time {
	if j.Requeued.After(j.Submitted) {
		return j.Requeued
	}
	return j.Submitted
}

// Digest returns the job's digest of the kind, without value if it has none.
func (j *Job) Digest(t digest.Type) digest.Value {
	for _, d := range j.Digests {
		if d.Type == t {
			return d
		}
	}
	return digest.Value{Type: t}
}

// MD5 returns the MD5 of the payload, zero if it is not known.
func (j *Job) MD5() (sum [16]byte) {
	if v := j.Digest(digest.MD5); v.Hex != "" {
		hex.Decode(sum[:], []byte(v.Hex)) // it was parsed
	}
	return sum
}

// Result returns the result of the name, and false if the job has none.
func (j *Job) Result(name string) (Result, bool) {
	i := slices.IndexFunc(j.Results, func(r Result) bool { return r.Name == name })
	if i < 0 {
		return Result{}, false
	}
	return j.Results[i], true
}

// LostNote is the element note of a job whose job file was lost: the job has the
// facts in the index.
const LostNote = "job file lost, restored from the index"

// UnreadNote begins the element note of a listed job whose job file cannot be read now: the
// job has the facts in the index.
const UnreadNote = "unreadable: "

// Unread reports whether the job has an [UnreadNote].
func (j *Job) Unread() bool {
	return j.Seq == 0 && strings.HasPrefix(j.Extra.Value("note"), UnreadNote)
}

// Lost reports whether the job file was lost, and nothing has happened to the
// job since then.
func (j *Job) Lost() bool { return j.Seq == 0 && j.Extra.Value("note") == LostNote }

// Errors of descriptions and names.
var (
	ErrBadName = errors.New("bad name")
	ErrSidecar = errors.New("sidecar is not text")
	ErrTooBig  = errors.New("too big")
)

// An ID numbers the jobs of a queue from 1; it never repeats, over restarts
// and culling. Its text is the job's file name, and text order is FIFO order.
type ID uint64

// MaxID is the largest number of twelve digits.
const MaxID = 999_999_999_999

// String returns "j" and twelve digits.
func (id ID) String() string { return string(id.Append(make([]byte, 0, 13))) }

// Append adds the text of the identifier to dst.
func (id ID) Append(dst []byte) []byte {
	var b [13]byte
	n := uint64(id)
	for i := 12; i > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	b[0] = 'j'
	return append(dst, b[:]...)
}

// ParseID accepts the output of String only. The error wraps [ErrBadName].
func ParseID(s string) (ID, error) {
	if len(s) != 13 || s[0] != 'j' {
		return 0, fmt.Errorf("%w: job identifier %.40q is not j and twelve digits", ErrBadName, s)
	}
	var n uint64
	for i := 1; i < 13; i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, fmt.Errorf("%w: job identifier %.40q is not j and twelve digits", ErrBadName, s)
		}
		n = n*10 + uint64(c)
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: job identifiers begin with j000000000001", ErrBadName)
	}
	return ID(n), nil
}

// A Seq numbers the events of a queue 1, 2, 3 … without gaps. 0 is before the
// first event.
type Seq uint64

// MaxSeq is the highest event number taken from a file: later events count from it.
const MaxSeq = 1 << 62

// A Status is where a job stands; it is the name of the directory its job
// file is in (Cutie 0.3, 3.3). The zero value is no job.
type Status uint8

const (
	Pending Status = 1 + iota
	Consumed
	Deleted
)

var statusNames = [...]string{"", "pending", "consumed", "deleted"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", s)
}

// ParseStatus accepts "pending", "consumed" and "deleted".
func ParseStatus(s string) (Status, error) {
	for i, n := range statusNames {
		if i > 0 && n == s {
			return Status(i), nil
		}
	}
	return 0, fmt.Errorf("%w: status %.40q is none of pending, consumed, deleted", ErrBadName, s)
}

// A Kind is the kind of an event.
type Kind uint8

const (
	Submit  Kind = 1 + iota // the job came
	Consume                 // pending to consumed
	Delete                  // pending to deleted
	Requeue                 // consumed or deleted to pending
	Cull                    // job file and payload removed
	Update                  // the job file changed, the status did not; of no job: queue-info.txt did
	// The following, too, change only the job file.
	Hold     // a pending job is passed over from now on
	Release  // it is no longer
	Extend   // the lease of a consumed job began or was extended
	Conclude // the outcome of a consumed job is known, or its consumer gave a result
	// The last one keeps the number of an event that a mirror did not get from its
	// original. It is of no job and no file, and nothing follows from it.
	Phase
)

var kindNames = [...]string{"", "submit", "consume", "delete", "requeue", "cull", "update", "hold", "release", "lease", "outcome", "phase"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// ParseKind accepts the output of String only.
func ParseKind(s string) (Kind, error) {
	for i, n := range kindNames {
		if i > 0 && n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("%w: kind %.40q is none of %s", ErrBadName, s, strings.Join(kindNames[1:], ", "))
}

// An Outcome is the report of a consumer on its job. The zero value is no report.
type Outcome uint8

const (
	Completed Outcome = 1 + iota
	Failed
	Aborted // by its submitter or an operator, or because its time was over
)

var outcomeNames = [...]string{"", "completed", "error", "aborted"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", o)
}

// ParseOutcome accepts "completed", "error" and "aborted".
func ParseOutcome(s string) (Outcome, error) {
	for i, n := range outcomeNames {
		if i > 0 && n == s {
			return Outcome(i), nil
		}
	}
	return 0, fmt.Errorf("%w: outcome %.40q is none of completed, error, aborted", ErrBadName, s)
}

// An Event is one entry of a queue's history, on stable storage. It is of a
// job or of queue-info.txt.
type Event struct {
	Seq      Seq
	Time     time.Time // UTC, microseconds, strictly increasing within a queue
	Kind     Kind
	Job      ID            // 0: the event is of queue-info.txt
	From, To Status        // 0: not in the queue
	Payload  Facts         // zero of queue-info.txt
	File     Facts         // the job file, or queue-info.txt, as this event left it
	Results  *ResultChange // nil: the job has the results it had
}

// A ResultChange is the change of the results of a job by an event.
type ResultChange struct {
	Came []Result
	Went []string // names
}

// Results returns the change of the results from before to after, nil without one. A
// result of a name with other contents came.
func Results(before, after []Result) *ResultChange {
	if len(before)+len(after) == 0 {
		return nil
	}
	var c ResultChange
	for _, r := range before {
		if !slices.ContainsFunc(after, func(a Result) bool { return a.Name == r.Name }) {
			c.Went = append(c.Went, r.Name)
		}
	}
	for _, r := range after {
		if !slices.Contains(before, r) {
			c.Came = append(c.Came, r)
		}
	}
	if len(c.Came)+len(c.Went) == 0 {
		return nil
	}
	return &c
}

// Facts describe one file for an auditor.
type Facts struct {
	Length   int64 // octets
	SHA256   [32]byte
	MD5      [16]byte  // zero: unknown, as of all but payloads
	Type     string    // media type
	Modified time.Time // UTC, microseconds
}

// FileType is the media type of job files and queue-info.txt (Cutie 0.3, 4).
const FileType = "text/x-anvl"

// Instant returns the time of an event, in microseconds since 1970, as a time in UTC.
func Instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// Micros is the opposite of Instant, and 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// An Acknowledge is the meaning of a silent consumer for a queue.
type Acknowledge uint8

const (
	AckNone     Acknowledge = iota // consumed is done
	AckRequired                    // the job goes back when the lease ends
	AckTimeout                     // the job is completed when the lease ends
)

var acknowledgeNames = [...]string{"none", "required", "timeout"}

func (a Acknowledge) String() string {
	if int(a) < len(acknowledgeNames) {
		return acknowledgeNames[a]
	}
	return fmt.Sprintf("Acknowledge(%d)", a)
}

// ParseAcknowledge accepts "none", "required" and "timeout".
func ParseAcknowledge(s string) (Acknowledge, error) {
	for i, n := range acknowledgeNames {
		if n == s {
			return Acknowledge(i), nil
		}
	}
	return 0, fmt.Errorf("%w: acknowledge %.40q is none of none, required, timeout", ErrBadName, s)
}

// The jobs of one submission have consecutive numbers, so the name of a batch
// tells which they are, and no index of batches is needed.

// BatchName returns the name of a batch of n jobs from first on.
func BatchName(first ID, n int) string { return fmt.Sprintf("b%012d-%d", first, n) }

// ParseBatch returns the jobs of a batch that [BatchName] named: n of
// them from first on. Any other name is [ErrBadName].
func ParseBatch(name string) (first ID, n int, err error) {
	number, count, _ := strings.Cut(name, "-")
	if strings.HasPrefix(number, "b") {
		first, err = ParseID("j" + number[1:])
		if err == nil {
			n, err = strconv.Atoi(count)
		}
	}
	if err != nil || n < 1 || BatchName(first, n) != name {
		return 0, 0, fmt.Errorf("%w: batch %.40q", ErrBadName, name)
	}
	return first, n, nil
}
