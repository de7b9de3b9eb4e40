package work

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"cutie/queuefs"
)

// A payload that never comes whole makes its job fail in the end, so that the
// jobs after it get their turn. Until then each pause is longer.
func TestUnreadablePayloadFailsInTheEnd(t *testing.T) {
	t.Parallel()
	home, id := homeWithAJob(t, "halfhalf")
	w := &Worker{Client: home.Client, Queue: "jobs", Lease: time.Hour, Program: "/nosuch", Warn: t.Logf, Say: t.Logf}
	var backoff time.Duration
	for attempt := 1; attempt <= maxUnread; attempt++ {
		d, err := home.NextFor(t.Context(), "jobs", queuefs.Take{Lease: w.Lease}, 0)
		if err != nil || d.Attempt != attempt {
			t.Fatalf("got attempt %d, %v, want %d", d.Attempt, err, attempt)
		}
		body := d.Body
		d.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)), body}
		wait, err := w.do(t.Context(), d, backoff)
		if err != nil {
			t.Fatal(err)
		}
		j, err := home.Job(t.Context(), "jobs", id)
		if err != nil {
			t.Fatal(err)
		}
		if attempt < maxUnread {
			if wait <= backoff || j.Status != queuefs.Pending || j.Message != "the payload could not be read" {
				t.Errorf("attempt %d: waits %v after %v, job is %v: %q", attempt, wait, backoff, j.Status, j.Message)
			}
		} else if wait != 0 || j.Outcome != queuefs.Failed || j.Transient || j.Message != "the payload could not be read: unexpected EOF" {
			t.Errorf("last attempt: waits %v, got %+v", wait, j)
		}
		backoff = wait
	}
}
