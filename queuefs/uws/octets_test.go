package uws_test

import (
	"strings"
	"testing"

	"cutie/queuefs"
)

// A result knows preconditions and ranges as every resource of the service does,
// and errors are in plain text here.
func TestResultKnowsPreconditionsAndRanges(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	result := job + "/results/result"
	whole := w.get(result)
	if _, text := w.want(412, "GET", result, "", "If-Match", `"x"`); !strings.Contains(text, "not in the state that If-Match") {
		t.Errorf("got %q", text)
	}
	if _, text := w.want(200, "GET", result, "", "Range", "items=0-1"); text != whole {
		t.Errorf("got %q, want %q", text, whole)
	}
	if _, text := w.want(206, "GET", result, "", "Range", "bytes=1-99999999999999999999"); text != whole[1:] {
		t.Errorf("got %q, want %q", text, whole[1:])
	}
}
