package job_test

import (
	"strings"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/job"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceParents(t *testing.T) {
	for text, want := range map[string]bool{
		parent: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":      true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": true, // a later version
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0":       false,
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01":      false,
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"": false,
	} {
		tr, ok := job.ParseTrace(text)
		if ok != want {
			t.Errorf("%s: got %v, want %v", text, ok, want)
		}
		if ok && text[:2] == "00" && tr.At(tr.Parent) != text {
			t.Errorf("got %s, want %s", tr.At(tr.Parent), text)
		}
	}
}

func TestJobsHaveTraces(t *testing.T) {
	j := job.Job{ID: 7, Queue: "jobs", Submitted: time.Unix(1, 0).UTC()}
	own := j.Trace()
	if own.Given() || own.ID == [16]byte{} || own.Flags != 1 {
		t.Errorf("got %+v, want a trace of its own", own)
	}
	other := j
	other.Queue = "others"
	if other.Trace().ID == own.ID || other.Span("wait", 1) == j.Span("wait", 1) || j.Span("wait", 1) == j.Span("wait", 2) {
		t.Error("two jobs, or two spans, have the same number")
	}
	j.Extra = job.TraceElements(parent, "a=1")
	given := j.Trace()
	if !given.Given() || given.At(given.Parent) != parent || given.State != "a=1" {
		t.Errorf("got %+v, want that of the submission", given)
	}
	if p, s := j.PassTrace(); p != parent || s != "a=1" {
		t.Errorf("got %q, %q", p, s)
	}
	if r := job.TraceElements(parent, strings.Repeat("x", 513)); len(r) != 1 {
		t.Errorf("got %v, want no long tracestate", r)
	}
	for _, hostile := range []string{"a=1\r\nX-Other: 1", "a=1\x00", "a=\u00e9"} {
		if r := job.TraceElements(parent, hostile); len(r) != 1 {
			t.Errorf("%q: got %v, want no tracestate", hostile, r)
		}
		j.Extra = anvl.Record{{Name: job.TraceParent, Value: parent}, {Name: job.TraceState, Value: hostile}}
		if p, s := j.PassTrace(); p != parent || s != "" {
			t.Errorf("%q: got %q, %q", hostile, p, s)
		}
	}
	j.Extra = anvl.Record{{Name: job.TraceParent, Value: parent + "\r\nX-Other: 1"}}
	if p, s := j.PassTrace(); p != "" || s != "" {
		t.Errorf("got %q, %q of a malformed element", p, s)
	}
	if r := job.TraceElements("nonsense", "a=1"); r != nil {
		t.Errorf("got %v, want nothing", r)
	}
}
