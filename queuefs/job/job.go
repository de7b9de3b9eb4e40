package job

import (
	"encoding/hex"
	"slices"
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
