package uws_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

func TestSettingsThatMakeNoSenseChangeNothing(t *testing.T) {
	w := newWorld(t, "uwsExecutionDuration: 5\n")
	job := w.create("a=1&PHASE=RUN")
	w.take()
	name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(text)+"uwsVersion: 2.0\n")
	for range 2 {
		if _, err := w.svc.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.q.State().Damage; !strings.Contains(got, "uwsVersion") {
		t.Errorf("got %q, want what is wrong", got)
	}
	w.tick()
	w.phase(job, "EXECUTING")
	w.sleep(6 * time.Second)
	w.h.Tick(context.Background())
	w.phase(job, "ABORTED")
}

func TestRejectedCreationLeavesNothing(t *testing.T) {
	w := newWorld(t, "")
	body, mediaType := parts(t, map[string]string{"a": "x"}, "PHASE", "RUN", "b", strings.Repeat("=", 200<<10))
	w.create(body, "Content-Type", mediaType)
	w.take()
	for _, c := range []string{"PHASE=RUN&PHASE=ABORT", "DESTRUCTION=x", "=1&PHASE=RUN"} {
		w.want(403, "POST", "async", c)
	}
	if got := w.spooled(); len(got) != 0 {
		t.Errorf("got %v left, want nothing", got)
	}
	if got := w.q.State().Pending; got != 0 {
		t.Errorf("got %d jobs, want 0", got)
	}
}

func TestListsByRarePhases(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "acknowledge: required\nuwsArchive: true\n")
	at := map[string]string{}
	for _, phase := range []string{"EXECUTING", "ERROR", "ABORTED", "COMPLETED", "ARCHIVED", "HELD", "QUEUED", "PENDING"} {
		w.sleep(time.Second)
		form := "a=1&PHASE=RUN"
		if phase == "PENDING" {
			form = "a=1"
		}
		job := w.create(form)
		at[phase] = idOf(job)
		switch phase {
		case "EXECUTING":
			w.take()
		case "ERROR":
			w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed})
		case "COMPLETED":
			w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
		case "ABORTED":
			w.want(303, "POST", job, "PHASE=ABORT")
		case "ARCHIVED":
			w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
			w.want(303, "POST", job, "DESTRUCTION=2020-01-01")
			w.sleep(time.Minute)
			w.tick()
		case "HELD":
			if _, err := w.q.Hold(ctx, w.q.IDs(queuefs.ListOptions{Status: queuefs.Pending})[0], "why"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for phase, id := range at {
		for _, query := range []string{"PHASE=" + phase, "LAST=5&PHASE=" + phase, "LAST=5&AFTER=2026-01-31&PHASE=" + phase} {
			if got := ids(w.get("async?" + query)); !reflect.DeepEqual(got, []string{id}) {
				t.Errorf("%s: got %v, want %s", query, got, id)
			}
		}
	}
	if got, want := ids(w.get("async?LAST=9&PHASE=HELD&PHASE=ERROR&PHASE=PENDING")), []string{at["PENDING"], at["HELD"], at["ERROR"]}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := len(ids(w.get("async?" + url.Values{"AFTER": {"2026-01-31 12:00"}}.Encode()))); got != 7 {
		t.Errorf("got %d jobs, want all but the archived", got)
	}
}

func TestTooLongParametersAreRefused(t *testing.T) {
	w := newWorld(t, "")
	long := strings.Repeat("a", 300<<10)
	job := w.create("x=1")
	w.want(413, "POST", "async", "x="+long)
	w.want(413, "PUT", job+"/parameters/x", long)
	if got := w.get(job + "/parameters/x"); got != "1" || len(ids(w.get("async"))) != 1 {
		t.Errorf("got %.40q, and jobs %v", got, ids(w.get("async")))
	}
}
