package queuefs

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
)

// A Job is an opaque payload with its metadata (Cutie 0.3, 3.3).
type Job struct {
	ID        JobID
	Queue     string // cleaned identifier of the queue
	Status    Status
	Seq       Seq            // of its last event
	Filename  string         // a label, never a path; "" if the submitter gave none
	MediaType string         // "" if the submitter gave none
	Submitter string         // user agent; "" if unknown
	Sidecar   string         // text, stored verbatim
	Size      int64          // octets of the payload
	Digests   []digest.Value // of the payload: SHA-256, those of the queue, those of the submitter
	Batch     string
	Owner     string // authenticated submitter; "" if anonymous
	Submitted time.Time
	Requeued  time.Time // last time it went back to pending; zero if never
	Requeues  int       // how often
	Updated   time.Time // last change of its metadata; zero if never
	Consumed  time.Time // zero unless it is or was consumed since last pending
	Consumer  string    // user agent of its consumer
	Attempts  int       // how often it was handed out
	Lease     Lease     // zero if the consumer has none
	Deleted   time.Time
	Held      time.Time // since then it is passed over; zero if it is not
	HeldFor   string    // why
	Outcome   Outcome   // report of the consumer; 0 if none
	Finished  time.Time // when it was reported
	Message   string    // of the outcome; of a pending job, why it was given back
	Transient bool      // another attempt may go better; only with Failed
	// Destruction is until when the job is retained: culling leaves it alone, and
	// [Queue.Due] names it from then on. Zero if nobody has asked for that.
	Destruction time.Time
	Results     []Result
	Extra       anvl.Record // unknown elements of the job file
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

// standing returns the standing of the job in the index.
func (j *Job) standing() index.Standing {
	return index.Standing{Status: j.Status, Outcome: j.Outcome, Held: j.Status == Pending && !j.Held.IsZero(),
		Leased: j.Status == Consumed && !j.Lease.Ends.IsZero(), Results: len(j.Results) > 0,
		Retained: !j.Destruction.IsZero() || j.Extra.Value(elemRequeuedAs) != ""}
}

// enter moves the job to st and drops all data without a meaning there.
func (j *Job) enter(st Status) {
	j.Status = st
	if st != Pending {
		j.Held, j.HeldFor = time.Time{}, ""
	}
	if st != Consumed {
		j.Lease = Lease{}
	}
	if st != Deleted {
		j.Deleted = time.Time{}
	}
	if st == Pending {
		j.Consumed, j.Consumer = time.Time{}, ""
		j.Outcome, j.Finished, j.Transient, j.Results = 0, time.Time{}, false, nil
	}
}

// goBack makes the job pending again.
func (j *Job) goBack(t time.Time) {
	j.enter(Pending)
	j.Message = ""
	j.Extra = without(j.Extra, elemRequeuedAs)
	j.Requeued, j.Requeues = t, j.Requeues+1
}

// digestOf returns the job's digest of the kind, without value if it has none.
func (j *Job) digestOf(t digest.Type) digest.Value {
	for _, d := range j.Digests {
		if d.Type == t {
			return d
		}
	}
	return digest.Value{Type: t}
}

// md5 returns the MD5 of the payload, zero if it is not known.
func (j *Job) md5() (sum [16]byte) {
	if v := j.digestOf(digest.MD5); v.Hex != "" {
		hex.Decode(sum[:], []byte(v.Hex)) // it was parsed
	}
	return sum
}

// Limits of the metadata of a job, in bytes.
const (
	MaxSidecar = 1 << 20
	maxLabel   = 1024
	maxExtra   = 16 << 10
)

// check refuses metadata that could not be stored and read again, and makes the
// file name a label.
func (m *Meta) check() error {
	if len(m.Sidecar) > MaxSidecar {
		return fmt.Errorf("sidecar: %w: more than %d octets", ErrTooBig, MaxSidecar)
	}
	if !utf8.ValidString(m.Sidecar) {
		return fmt.Errorf("%w: it is not UTF-8", ErrSidecar)
	}
	for i, c := range m.Sidecar {
		switch {
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f:
			return fmt.Errorf("%w: control character %#02x at octet %d", ErrSidecar, c, i)
		case c == 0xfffe || c == 0xffff: // XML 1.0 has no place for them
			return fmt.Errorf("%w: %U at octet %d", ErrSidecar, c, i)
		}
	}
	if i := strings.LastIndexAny(m.Filename, `/\`); i >= 0 {
		m.Filename = m.Filename[i+1:]
	}
	for _, s := range []*string{&m.Filename, &m.MediaType, &m.Submitter, &m.Owner, &m.Batch} {
		// Cleaning may make it longer.
		if *s = cleanLabel(*s); len(*s) > maxLabel {
			return fmt.Errorf("%w: %.40q… is longer than %d octets", ErrTooBig, *s, maxLabel)
		}
	}
	size := 0
	for _, x := range m.Extra {
		if x.Name == "" || slices.Contains(elements[:], elementName(x.Name)) {
			return fmt.Errorf("%w: element %.40q is not one to add to a job file", ErrBadName, x.Name)
		}
		size += len(x.Name) + len(x.Value)
	}
	if size > maxExtra {
		return fmt.Errorf("further elements: %w: more than %d octets", ErrTooBig, maxExtra)
	}
	return nil
}

// cleanLabel replaces characters without a place in documents.
func cleanLabel(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return strings.Map(func(r rune) rune {
				if r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff {
					return utf8.RuneError
				}
				return r
			}, strings.ToValidUTF8(s, "\uFFFD"))
		}
	}
	return s
}
