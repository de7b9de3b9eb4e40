package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
)

// timeForm is W3CDTF with microseconds, always UTC.
const timeForm = "2006-01-02T15:04:05.000000Z"

// FormatTime returns t as it stands in job files.
func FormatTime(t time.Time) string { return string(AppendTime(make([]byte, 0, len(timeForm)), t)) }

// AppendTime appends t to dst as FormatTime writes it.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, timeForm)
	}
	hour, minute, second := t.Clock()
	dst = append(appendDigits(dst, year, 4), '-')
	dst = append(appendDigits(dst, int(month), 2), '-')
	dst = append(appendDigits(dst, day, 2), 'T')
	dst = append(appendDigits(dst, hour, 2), ':')
	dst = append(appendDigits(dst, minute, 2), ':')
	dst = append(appendDigits(dst, second, 2), '.')
	return append(appendDigits(dst, t.Nanosecond()/1000, 6), 'Z')
}

// appendDigits appends the last width digits of n.
func appendDigits(dst []byte, n, width int) []byte {
	const zeros = "000000"
	dst = append(dst, zeros[:width]...)
	for i := len(dst) - 1; n > 0 && width > 0; i, width = i-1, width-1 {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// Elements of a job file, in the order they are written. The lines above
// submitted change in the life of a job by a new description alone, but for those
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
	elemKey         = "idempotencyKey"
	elemSidecar     = "sidecar"
	elemSidecar64   = "sidecarBase64" // instead of sidecar if that is not text
	elemSubmitted   = "submitted"
	elemRequeued    = "requeued"
	elemRequeues    = "numRequeues"
	elemUpdated     = "updated"
	elemDestruction = "destruction"
	elemConsumed    = "consumed"
	elemConsumer    = "consumer"
	elemAttempts    = "numAttempts"
	elemLeaseEnds   = "leaseExpires"
	elemLeaseKey    = "leaseKey"
	elemConsumerKey = "consumerKey"
	elemDeleted     = "deleted"
	elemHeld        = "held"
	elemHeldFor     = "heldFor"
	elemHeldUntil   = "heldUntil"
	elemOutcome     = "outcome"
	elemFinished    = "finished"
	elemMessage     = "message"
	elemErrorType   = "errorType"
	elemResult      = "result"
	elemSequence    = "sequence"
	elemStatus      = "status"
)

// Elements by which two jobs name each other; they stand in Extra.
const (
	RequeuedAs   = "requeuedAs"
	RequeuedFrom = "requeuedFrom"
)

// AppendText appends the job file in ANVL (Cutie 0.3, 6.5). All other files can be
// rebuilt from it and the payload.
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
	if j.Key != "" {
		dst = e(dst, elemKey, j.Key)
	}
	switch {
	case !j.HasSidecar():
	case CheckText(j.Sidecar) == nil:
		dst = e(dst, elemSidecar, j.Sidecar)
	default:
		dst = append(dst, elemSidecar64+": "...)
		dst = append(base64.StdEncoding.AppendEncode(dst, []byte(j.Sidecar)), '\n')
	}
	for _, x := range j.Extra {
		dst = e(dst, x.Name, x.Value)
	}
	date := func(name string, t time.Time) {
		if !t.IsZero() {
			dst = append(append(dst, name...), ": "...)
			dst = append(AppendTime(dst, t), '\n')
		}
	}
	date(elemSubmitted, j.Submitted)
	date(elemRequeued, j.Requeued)
	if j.Requeues > 0 {
		dst = appendInt(dst, elemRequeues, int64(j.Requeues))
	}
	date(elemUpdated, j.Updated)
	date(elemDestruction, j.Destruction)
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
	if j.ConsumerKey != "" {
		dst = e(dst, elemConsumerKey, j.ConsumerKey)
	}
	date(elemDeleted, j.Deleted)
	date(elemHeld, j.Held)
	if j.HeldFor != "" {
		dst = e(dst, elemHeldFor, j.HeldFor)
	}
	date(elemHeldUntil, j.HeldUntil)
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

// unknown is the value of ANVL for unknown ones.
const unknown = "(:unkn)"

func appendInt(dst []byte, name string, n int64) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(strconv.AppendInt(dst, n, 10), '\n')
}

// Parse reads a job file. Elements it does not know are kept in Extra.
func Parse(text []byte) (Job, error) {
	rec, err := anvl.ParseRecord(text)
	if err != nil {
		return Job{}, err
	}
	var j Job
	var seen uint32
	var typ digest.Type
	for _, el := range rec {
		name, v := el.Name, el.Value
		bit := uint32(0)
	again:
		switch name {
		case elemIdentifier:
			bit = 1
			j.ID, err = ParseID(v)
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
			bit, j.Sidecar, j.EmptySidecar = 64, v, v == ""
		case elemSidecar64:
			bit = 64
			var octets []byte
			octets, err = base64.StdEncoding.DecodeString(v)
			j.Sidecar, j.EmptySidecar = string(octets), len(octets) == 0
		case elemSubmitted:
			bit = 128
			j.Submitted, err = ParseTime(v)
		case elemRequeued:
			bit = 256
			j.Requeued, err = ParseTime(v)
		case elemRequeues:
			bit = 512
			j.Requeues, err = strconv.Atoi(v)
		case elemUpdated:
			bit = 1 << 25
			j.Updated, err = ParseTime(v)
		case elemDestruction:
			bit = 1 << 26
			j.Destruction, err = ParseTime(v)
		case elemConsumed:
			bit = 1024
			j.Consumed, err = ParseTime(v)
		case elemConsumer:
			bit, j.Consumer = 2048, v
		case elemDeleted:
			bit = 4096
			j.Deleted, err = ParseTime(v)
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
		case elemKey:
			bit, j.Key = 1<<30, v
		case elemAttempts:
			bit = 1 << 16
			j.Attempts, err = strconv.Atoi(v)
		case elemLeaseEnds:
			bit = 1 << 17
			j.Lease.Ends, err = ParseTime(v)
		case elemLeaseKey:
			bit, j.Lease.Key = 1<<18, v
		case elemConsumerKey:
			bit, j.ConsumerKey = 1<<31, v
		case elemHeld:
			bit = 1 << 19
			j.Held, err = ParseTime(v)
		case elemHeldFor:
			bit, j.HeldFor = 1<<20, v
		case elemHeldUntil:
			bit = 1 << 27
			j.HeldUntil, err = ParseTime(v)
		case elemOutcome:
			bit = 1 << 21
			j.Outcome, err = ParseOutcome(v)
		case elemFinished:
			bit = 1 << 22
			j.Finished, err = ParseTime(v)
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
			if known := elementName(name); known != name {
				name = known
				goto again
			}
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

// elementName returns the spelling of an element in job files.
func elementName(name string) string {
	for _, known := range elements {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return name
}

var elements = [...]string{elemIdentifier, elemSubmitter, elemSize, elemFilename, elemMediaType, elemDigestType, elemDigestValue, elemBatch, elemOwner, elemKey, elemSidecar, elemSidecar64, elemSubmitted, elemRequeued, elemRequeues, elemUpdated, elemDestruction, elemConsumed, elemConsumer, elemAttempts, elemLeaseEnds, elemLeaseKey, elemConsumerKey, elemDeleted, elemHeld, elemHeldFor, elemHeldUntil, elemOutcome, elemFinished, elemMessage, elemErrorType, elemResult, elemSequence, elemStatus}

// HoldEnds returns HeldUntil in a job file written by [Job.AppendText], without
// reading all of it.
func HoldEnds(text []byte) time.Time {
	_, line, _ := bytes.Cut(text, []byte("\n"+elemHeldUntil+": "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	t, err := ParseTime(string(line))
	if err != nil {
		return time.Time{}
	}
	return t
}

// ParseTime reads a time of RFC 3339, with any fraction and zone, and returns it in UTC. Years
// other than 0 to 9999, and the zero time, are errors: [FormatTime] could not write them.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	t = t.UTC()
	if err == nil && (t.IsZero() || t.Year() < 0 || t.Year() > 9999) {
		err = fmt.Errorf("%.40q is no date that could be written again", s)
	}
	return t, err
}

// With returns r with one element of the name.
func With(r anvl.Record, name, value string) anvl.Record {
	return append(Without(r, name), anvl.Element{Name: name, Value: value})
}

// Without returns r without elements of the name.
func Without(r anvl.Record, name string) anvl.Record {
	return slices.DeleteFunc(slices.Clone(r), func(e anvl.Element) bool { return strings.EqualFold(e.Name, name) })
}

// Elements of a job file with the trace that the submission belongs to (W3C Trace
// Context, 3.2 and 3.3); they stand in Extra.
const (
	TraceParent = "traceparent"
	TraceState  = "tracestate"
)

// maxTraceState is the most octets of a tracestate (W3C Trace Context, 3.3.1.5).
const maxTraceState = 512

// A Trace is the place of a job among the spans of a trace. The spans of a job have
// numbers that follow from the job alone, so every process and every start knows them.
type Trace struct {
	ID     [16]byte
	Parent [8]byte // span of the submitter; zero: there is none
	Flags  byte    // bit 0: the submitter's spans are recorded
	State  string  // tracestate, as it came
}

// Given reports whether the submitter has named the trace.
func (t *Trace) Given() bool { return t.Parent != [8]byte{} }

// ParseTrace reads a traceparent. A malformed one counts as none.
func ParseTrace(text string) (t Trace, ok bool) {
	// 00-TRACE-SPAN-FLAGS; later versions may go on behind a dash.
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' || text[:2] == "ff" || len(text) > 55 && (text[:2] == "00" || text[55] != '-') {
		return t, false
	}
	if strings.ToLower(text) != text {
		return t, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], text[:2]}, {t.ID[:], text[3:35]}, {t.Parent[:], text[36:52]}, {flags[:], text[53:55]}} {
		if n, err := hex.Decode(part.to, []byte(part.text)); err != nil || n != len(part.to) {
			return Trace{}, false
		}
	}
	t.Flags = flags[0]
	if t.ID == [16]byte{} || t.Parent == [8]byte{} {
		return Trace{}, false
	}
	return t, true
}

// TraceElements are the elements of a job file for the header fields of a submission;
// none for a malformed traceparent.
func TraceElements(parent, state string) (r anvl.Record) {
	if _, ok := ParseTrace(parent); !ok {
		return nil
	}
	r = anvl.Record{{Name: TraceParent, Value: parent}}
	if state = traceState(state); state != "" {
		r = append(r, anvl.Element{Name: TraceState, Value: state})
	}
	return r
}

// traceState returns a tracestate, "" for one that is no value of a header field.
func traceState(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxTraceState || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		return ""
	}
	return text
}

// Trace returns the trace of the submission, or one of the job's own.
func (j *Job) Trace() Trace {
	if t, ok := j.given(); ok {
		return t
	}
	sum := sha256.Sum256([]byte(j.Queue + " " + j.ID.String() + " " + FormatTime(j.Submitted)))
	return Trace{ID: [16]byte(sum[:]), Flags: 1}
}

// given returns the trace that the submitter named.
func (j *Job) given() (Trace, bool) {
	i := slices.IndexFunc(j.Extra, func(e anvl.Element) bool { return e.Name == TraceParent })
	if i < 0 {
		return Trace{}, false
	}
	t, ok := ParseTrace(j.Extra[i].Value)
	if ok {
		t.State = traceState(j.Extra.Value(TraceState)) // other hands may have written it
	}
	return t, ok
}

// PassTrace returns traceparent and tracestate as they came with the submission; "": none.
func (j *Job) PassTrace() (parent, state string) {
	t, ok := j.given()
	if !ok {
		return "", ""
	}
	return t.At(t.Parent), t.State
}

// Span returns the number of a span of the job; n tells spans of a name apart.
func (j *Job) Span(name string, n int) (id [8]byte) {
	sum := sha256.Sum256([]byte(name + " " + strconv.Itoa(n) + " " + j.Queue + " " + j.ID.String() + " " + j.Submitted.UTC().Format(time.RFC3339Nano)))
	copy(id[:], sum[:])
	return id
}

// At returns the traceparent of a request that belongs to a span.
func (t *Trace) At(span [8]byte) string {
	return "00-" + hex.EncodeToString(t.ID[:]) + "-" + hex.EncodeToString(span[:]) + "-" + hex.EncodeToString([]byte{t.Flags})
}
