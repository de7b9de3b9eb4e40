package job

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
)

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
