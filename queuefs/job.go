package queuefs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
)

// A Job is an opaque payload and what is known of it (Cutie 0.3, 3.3).
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
	Digests   []digest.Value // of the payload: SHA-256, MD5, then the submitter's own kinds
	Batch     string
	Owner     string // authenticated user who submitted it; "" if anonymous
	Submitted time.Time
	Requeued  time.Time // last time it went back to pending; zero if never
	Requeues  int       // how often
	Updated   time.Time // last time that what is said of it changed; zero if never
	Consumed  time.Time // zero unless it is or was consumed since last pending
	Consumer  string    // user agent that consumed it
	Attempts  int       // how often it was handed out
	Lease     Lease     // zero if the consumer has none
	Deleted   time.Time
	Held      time.Time // since then it is passed over; zero if it is not
	HeldFor   string    // why
	Outcome   Outcome   // what the consumer reported; 0 if nothing
	Finished  time.Time // when it was reported
	Message   string    // of the outcome; of a pending job, why it was given back
	Transient bool      // another attempt may go better; only with Failed
	Results   []Result
	Extra     anvl.Record // elements of the job file that mean nothing here, kept
}

// DefaultMediaType is that of payloads without one.
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

// marks returns what the index keeps of where the job stands.
func (j *Job) marks() marks {
	return marks{status: j.Status, outcome: j.Outcome, held: j.Status == Pending && !j.Held.IsZero(),
		leased: j.Status == Consumed && !j.Lease.Ends.IsZero(), results: len(j.Results) > 0}
}

// enter moves the job to st and drops what cannot be said of it there.
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

// timeForm is W3CDTF with microseconds, always UTC.
const timeForm = "2006-01-02T15:04:05.000000Z"

// FormatTime returns t as it stands in job files.
func FormatTime(t time.Time) string { return t.UTC().Format(timeForm) }

// Elements of a job file, in the order they are written. The lines above
// submitted change in the life of a job by [Queue.Describe] alone, but for those
// that mean nothing here and that which names the job it was requeued as.
const (
	elemIdentifier  = "identifier"
	elemSubmitter   = "submitter"
	elemSize        = "size"
	elemFilename    = "filename"
	elemMediaType   = "mediaType"
	elemDigestType  = "digestType"
	elemDigestValue = "digestValue"
	elemBatch       = "batch"
	elemOwner       = "owner"
	elemSidecar     = "sidecar"
	elemSubmitted   = "submitted"
	elemRequeued    = "requeued"
	elemRequeues    = "numRequeues"
	elemUpdated     = "updated"
	elemConsumed    = "consumed"
	elemConsumer    = "consumer"
	elemAttempts    = "numAttempts"
	elemLeaseEnds   = "leaseExpires"
	elemLeaseKey    = "leaseKey"
	elemDeleted     = "deleted"
	elemHeld        = "held"
	elemHeldFor     = "heldFor"
	elemOutcome     = "outcome"
	elemFinished    = "finished"
	elemMessage     = "message"
	elemErrorType   = "errorType"
	elemResult      = "result"
	elemSequence    = "sequence"
	elemStatus      = "status"
)

// AppendText appends the job file: all that is needed to rebuild everything
// else, in ANVL (Cutie 0.3, 6.5).
func (j *Job) AppendText(dst []byte) []byte {
	e := anvl.AppendElement
	dst = append(dst, elemIdentifier+": "...)
	dst = append(j.ID.Append(dst), '\n')
	submitter := j.Submitter
	if submitter == "" {
		submitter = unknown
	}
	dst = e(dst, elemSubmitter, submitter)
	dst = appendInt(dst, elemSize, j.Size)
	if j.Filename != "" {
		dst = e(dst, elemFilename, j.Filename)
	}
	if j.MediaType != "" {
		dst = e(dst, elemMediaType, j.MediaType)
	}
	for _, d := range j.Digests {
		dst = e(dst, elemDigestType, d.Type.String())
		dst = e(dst, elemDigestValue, d.Hex)
	}
	if j.Batch != "" {
		dst = e(dst, elemBatch, j.Batch)
	}
	if j.Owner != "" {
		dst = e(dst, elemOwner, j.Owner)
	}
	if j.Sidecar != "" {
		dst = e(dst, elemSidecar, j.Sidecar)
	}
	for _, x := range j.Extra {
		dst = e(dst, x.Name, x.Value)
	}
	date := func(name string, t time.Time) {
		if !t.IsZero() {
			dst = append(append(dst, name...), ": "...)
			dst = append(t.UTC().AppendFormat(dst, timeForm), '\n')
		}
	}
	date(elemSubmitted, j.Submitted)
	date(elemRequeued, j.Requeued)
	if j.Requeues > 0 {
		dst = appendInt(dst, elemRequeues, int64(j.Requeues))
	}
	date(elemUpdated, j.Updated)
	date(elemConsumed, j.Consumed)
	if j.Consumer != "" {
		dst = e(dst, elemConsumer, j.Consumer)
	}
	if j.Attempts > 0 {
		dst = appendInt(dst, elemAttempts, int64(j.Attempts))
	}
	date(elemLeaseEnds, j.Lease.Ends)
	if j.Lease.Key != "" {
		dst = e(dst, elemLeaseKey, j.Lease.Key)
	}
	date(elemDeleted, j.Deleted)
	date(elemHeld, j.Held)
	if j.HeldFor != "" {
		dst = e(dst, elemHeldFor, j.HeldFor)
	}
	if j.Outcome != 0 {
		dst = e(dst, elemOutcome, j.Outcome.String())
	}
	date(elemFinished, j.Finished)
	if j.Message != "" {
		dst = e(dst, elemMessage, j.Message)
	}
	if j.Outcome == Failed {
		dst = e(dst, elemErrorType, errorType(j.Transient))
	}
	for _, r := range j.Results {
		dst = e(dst, elemResult, r.String())
	}
	dst = append(dst, elemSequence+": "...)
	dst = append(strconv.AppendUint(dst, uint64(j.Seq), 10), '\n')
	dst = append(dst, elemStatus+": "...)
	dst = append(append(dst, j.Status.String()...), '\n')
	return dst
}

// unknown is what ANVL says for a value nobody gave.
const unknown = "(:unkn)"

func appendInt(dst []byte, name string, n int64) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(strconv.AppendInt(dst, n, 10), '\n')
}

// ParseJob reads a job file. Elements it does not know are kept in Extra.
func ParseJob(text []byte) (Job, error) {
	rec, err := anvl.ParseRecord(text)
	if err != nil {
		return Job{}, err
	}
	var j Job
	var seen uint32
	var typ digest.Type
	for _, el := range rec {
		v := el.Value
		bit := uint32(0)
		switch elementName(el.Name) {
		case elemIdentifier:
			bit = 1
			j.ID, err = ParseJobID(v)
		case elemSubmitter:
			bit = 2
			if v != unknown {
				j.Submitter = v
			}
		case elemSize:
			bit = 4
			j.Size, err = strconv.ParseInt(v, 10, 64)
			if err == nil && j.Size < 0 {
				err = fmt.Errorf("%s is not a size", v)
			}
		case elemFilename:
			bit, j.Filename = 8, v
		case elemMediaType:
			bit, j.MediaType = 16, v
		case elemDigestType:
			typ, err = digest.Parse(v)
		case elemDigestValue:
			var d digest.Value
			d, err = digest.ParseValue(typ, v)
			j.Digests = append(j.Digests, d)
			typ = 0
		case elemBatch:
			bit, j.Batch = 32, v
		case elemSidecar:
			bit, j.Sidecar = 64, v
		case elemSubmitted:
			bit = 128
			j.Submitted, err = parseTime(v)
		case elemRequeued:
			bit = 256
			j.Requeued, err = parseTime(v)
		case elemRequeues:
			bit = 512
			j.Requeues, err = strconv.Atoi(v)
		case elemUpdated:
			bit = 1 << 25
			j.Updated, err = parseTime(v)
		case elemConsumed:
			bit = 1024
			j.Consumed, err = parseTime(v)
		case elemConsumer:
			bit, j.Consumer = 2048, v
		case elemDeleted:
			bit = 4096
			j.Deleted, err = parseTime(v)
		case elemSequence:
			bit = 8192
			var n uint64
			n, err = strconv.ParseUint(v, 10, 64)
			j.Seq = Seq(n)
		case elemStatus:
			bit = 16384
			j.Status, err = ParseStatus(v)
		case elemOwner:
			bit, j.Owner = 1<<15, v
		case elemAttempts:
			bit = 1 << 16
			j.Attempts, err = strconv.Atoi(v)
		case elemLeaseEnds:
			bit = 1 << 17
			j.Lease.Ends, err = parseTime(v)
		case elemLeaseKey:
			bit, j.Lease.Key = 1<<18, v
		case elemHeld:
			bit = 1 << 19
			j.Held, err = parseTime(v)
		case elemHeldFor:
			bit, j.HeldFor = 1<<20, v
		case elemOutcome:
			bit = 1 << 21
			j.Outcome, err = ParseOutcome(v)
		case elemFinished:
			bit = 1 << 22
			j.Finished, err = parseTime(v)
		case elemMessage:
			bit, j.Message = 1<<23, v
		case elemErrorType:
			bit = 1 << 24
			j.Transient, err = parseErrorType(v)
		case elemResult:
			var r Result
			r, err = parseResult(v)
			j.Results = append(j.Results, r)
		default:
			j.Extra = append(j.Extra, el)
		}
		if err != nil {
			return Job{}, fmt.Errorf("%s: %w", el.Name, err)
		}
		if seen&bit != 0 {
			return Job{}, fmt.Errorf("%s stands twice", el.Name)
		}
		seen |= bit
	}
	const must = 1 | 4 | 128 | 16384
	if seen&must != must {
		return Job{}, fmt.Errorf("a job file has %s, %s, %s and %s", elemIdentifier, elemSize, elemSubmitted, elemStatus)
	}
	return j, nil
}

// elementName returns the spelling that elements of a job file have here.
func elementName(name string) string {
	for _, known := range elements {
		if name == known {
			return known
		}
	}
	for _, known := range elements {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return name
}

var elements = [...]string{elemIdentifier, elemSubmitter, elemSize, elemFilename, elemMediaType, elemDigestType, elemDigestValue, elemBatch, elemOwner, elemSidecar, elemSubmitted, elemRequeued, elemRequeues, elemUpdated, elemConsumed, elemConsumer, elemAttempts, elemLeaseEnds, elemLeaseKey, elemDeleted, elemHeld, elemHeldFor, elemOutcome, elemFinished, elemMessage, elemErrorType, elemResult, elemSequence, elemStatus}

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeForm, s)
	if err != nil {
		t, err = time.Parse(time.RFC3339Nano, s)
	}
	t = t.UTC()
	if err == nil && (t.IsZero() || t.Year() < 0 || t.Year() > 9999) {
		err = fmt.Errorf("%.40q is no date that could be written again", s)
	}
	return t, err
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

// Limits of what a submitter may say of a job, in octets.
const (
	MaxSidecar = 1 << 20
	maxLabel   = 1024
	maxExtra   = 16 << 10
)

// check refuses what could not be stored and read again, and makes the file
// name a label.
func (m *Meta) check() error {
	if len(m.Sidecar) > MaxSidecar {
		return fmt.Errorf("sidecar: %w: more than %d octets", ErrTooBig, MaxSidecar)
	}
	if !utf8.ValidString(m.Sidecar) {
		return fmt.Errorf("%w: it is not UTF-8", ErrSidecar)
	}
	for i := 0; i < len(m.Sidecar); i++ {
		if c := m.Sidecar[i]; c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return fmt.Errorf("%w: control character %#02x at octet %d", ErrSidecar, c, i)
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

// cleanLabel replaces what no document can carry.
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
