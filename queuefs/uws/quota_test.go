package uws_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

// limits gives the queue limits.
func (w *world) limits(text string) {
	w.t.Helper()
	l, err := queuefs.ParseLimits(text)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.svc.SetQueue(context.Background(), "q", func(i *queuefs.QueueInfo) error { i.Limits = l; return nil }); err != nil {
		w.t.Fatal(err)
	}
}

func TestUsersKeepWithinTheBytesOfAQueue(t *testing.T) {
	w := newWorld(t, "")
	w.limits("upload=1000")
	body, mediaType := parts(t, map[string]string{"file": strings.Repeat("x", 600)})
	job := w.create(body, "Content-Type", mediaType)
	if _, text := w.want(403, "POST", "async", body, "Content-Type", mediaType); !strings.Contains(text, "600 octets") {
		t.Errorf("got %q, want the reason", text)
	}
	if got := w.spooled(); len(got) != 0 {
		t.Errorf("got %v left of the refused one", got)
	}
	w.want(303, "DELETE", job, "")
	w.create(body, "Content-Type", mediaType)
}

func TestNobodyWithoutANameFillsAQueue(t *testing.T) {
	w := newWorld(t, "")
	w.as = uws.Caller{}
	made := 0
	for ; made < 5000; made++ {
		if status, _, _ := w.do("POST", "async", "DESTRUCTION=9999-12-31"); status != 303 {
			break
		}
	}
	if made != 1000 {
		t.Errorf("made %d jobs, want 1000", made)
	}
	for _, job := range ids(w.get("async?LAST=1")) {
		if got := w.get("async/" + job + "/destruction"); got != "2027-01-31T12:00:00.000Z" {
			t.Errorf("got destruction %s, want a year", got)
		}
	}
}

func TestLimitsOfTimeHoldForUsers(t *testing.T) {
	w := newWorld(t, "uwsMaxExecutionDuration: 1000\n")
	w.limits("run=60,life=2")
	for form, want := range map[string]string{
		"a=1":                             "60 2026-01-31T14:00:00.000Z",
		"EXECUTIONDURATION=5":             "5 2026-01-31T14:00:00.000Z",
		"EXECUTIONDURATION=0":             "60 2026-01-31T14:00:00.000Z",
		"EXECUTIONDURATION=900":           "60 2026-01-31T14:00:00.000Z",
		"DESTRUCTION=2026-01-31T13:00:00": "60 2026-01-31T13:00:00.000Z",
		"DESTRUCTION=9999-01-01":          "60 2026-01-31T14:00:00.000Z",
	} {
		job := w.create(form)
		for range 2 {
			if got := w.get(job+"/executionduration") + " " + w.get(job+"/destruction"); got != want {
				t.Errorf("%s: got %s, want %s", form, got, want)
			}
			for _, p := range strings.Split(form, "&") {
				if name, _, _ := strings.Cut(p, "="); name != "a" {
					w.want(303, "POST", job+"/"+strings.ToLower(name), p)
				}
			}
		}
	}
	// The limit of the user stays with the job.
	job := w.create("PHASE=RUN&a=1")
	w.take()
	w.limits("")
	w.sleep(61 * time.Second)
	w.tick()
	w.phase(job, "ABORTED")
}
