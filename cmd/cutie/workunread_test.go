package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A booth is a target that notes what a worker reports.
type booth struct {
	target
	ended    []queuefs.Conclusion
	returned []string
}

func (b *booth) Extend(context.Context, string, string, string, time.Duration) (queuefs.Job, error) {
	return queuefs.Job{}, nil
}

func (b *booth) Conclude(_ context.Context, _, _, _ string, c queuefs.Conclusion) (queuefs.Job, error) {
	b.ended = append(b.ended, c)
	return queuefs.Job{}, nil
}

func (b *booth) Return(_ context.Context, _, _, _, message string) (queuefs.Job, error) {
	b.returned = append(b.returned, message)
	return queuefs.Job{}, nil
}

// What cannot be read again and again has failed, so that others get their
// turn; until then each attempt waits longer.
func TestAPayloadThatDoesNotComeWholeFailsInTheEnd(t *testing.T) {
	said, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	b := &booth{}
	w := &worker{call: &call{verb: &workVerb, stderr: said}, target: b, queue: "jobs", lease: time.Hour, program: "/nosuch"}
	var patience time.Duration
	for attempt := 1; attempt <= maxUnread; attempt++ {
		body := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))
		wait, err := w.do(t.Context(), &rest.Delivery{Queue: "jobs", Job: "j000000000001", Size: 8, Lease: "x", Attempt: attempt, Body: io.NopCloser(body)}, patience)
		if err != nil {
			t.Fatal(err)
		}
		if last := attempt == maxUnread; last != (wait == 0) || !last && wait <= patience {
			t.Errorf("attempt %d: waits %v after %v", attempt, wait, patience)
		}
		patience = wait
	}
	if len(b.returned) != maxUnread-1 || b.returned[0] != "the payload could not be read" {
		t.Errorf("given back: %q", b.returned)
	}
	want := queuefs.Conclusion{Outcome: queuefs.Failed, Transient: true, Message: "the payload could not be read: unexpected EOF"}
	if len(b.ended) != 1 || b.ended[0] != want {
		t.Errorf("got %+v, want %+v", b.ended, want)
	}
}
