package uws_test

import (
	"context"
	"fmt"
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

func TestClockThatStepsBackLosesNoJob(t *testing.T) {
	w := newWorld(t, "")
	w.sleep(-time.Hour)
	job := idOf(w.create("a=1"))
	w.phase(w.srv.URL+"/uws/q/async/"+job, "PENDING")
	w.close()
	w.open(nil)
	w.phase(w.srv.URL+"/uws/q/async/"+job, "PENDING")
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

func TestOperatorMayPutADestroyedJobBack(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "")
	job := w.create("a=1&PHASE=RUN")
	taken := w.take()
	w.want(303, "DELETE", job, "")
	if _, err := w.q.Conclude(ctx, taken.ID, taken.Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err == nil {
		t.Error("the worker of a destroyed job still has its lease")
	}
	w.sleep(time.Second)
	if _, err := w.q.Requeue(ctx, taken.ID); err != nil {
		t.Fatal(err)
	}
	w.want(404, "GET", job, "") // its client has destroyed it
	w.close()
	w.open(nil)
	w.tick()
	w.sleep(25 * time.Hour)
	w.tick()
	again := w.take()
	w.finish(again, queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	w.sleep(25 * time.Hour)
	w.tick()
	if j, err := w.q.Job(again.ID); err != nil || len(j.Results) != 1 {
		t.Errorf("got %d results, %v, want the job left alone", len(j.Results), err)
	}
}

func TestOperatorMayPutAnArchivedJobBack(t *testing.T) {
	w := newWorld(t, "uwsArchive: true\nuwsDestruction: 1\n")
	job := w.create("a=1&PHASE=RUN")
	taken := w.take()
	w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	w.sleep(time.Hour)
	w.tick()
	w.phase(job, "ARCHIVED")
	w.sleep(time.Second)
	if _, err := w.q.Requeue(context.Background(), taken.ID); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "QUEUED")
}

func TestDestructionThatWasChangedComesOnce(t *testing.T) {
	w := newWorld(t, "limits: life=0\n")
	var kept []string
	for i := range 20 {
		job := w.create("a=1")
		for n := range 5 {
			w.want(303, "POST", job+"/destruction", fmt.Sprintf("DESTRUCTION=203%d-01-01", n))
		}
		w.want(303, "POST", job+"/parameters", "a=2")
		switch {
		case i%2 == 0:
			w.want(303, "DELETE", job, "")
		default:
			w.want(303, "POST", job+"/phase", "PHASE=RUN")
			w.want(303, "POST", job+"/destruction", "DESTRUCTION=2040-01-01")
			kept = append(kept, job)
		}
	}
	due := func(year int) int {
		t.Helper()
		ids, err := w.q.Due(t.Context(), time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC), 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	if a, b := due(2039), due(2040); a != 0 || b != len(kept) {
		t.Errorf("got %d and %d jobs due, want none and %d", a, b, len(kept))
	}
}

func TestParametersOfOneNameChangeTogether(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("x=1&y=a&x=2&z=b")
	w.want(303, "POST", job+"/parameters", "x=3&x=4&x=5&z=c")
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	if got, want := w.take().Sidecar, "x=3; x=4; x=5; y=a; z=c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	job = w.create("x=1")
	w.want(413, "PUT", job+"/parameters/x", strings.Repeat("a", 300<<10))
	w.want(400, "PUT", job+"/parameters/PHASE", "RUN")
	if got := w.get(job + "/parameters/x"); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestQuoteIsTheConfiguredOrTheLongestRunTime(t *testing.T) {
	quote := func(w *world, job string) string {
		t.Helper()
		text := element(w.get(job), "quote")
		if word := w.get(job + "/quote"); word != text {
			t.Errorf("got %s, and %s in the job", word, text)
		}
		return text
	}
	w := newWorld(t, "")
	if got := quote(w, w.create("a=1")); got != "" {
		t.Errorf("got quote %s, and nobody knows", got)
	}
	if got := quote(w, w.create("a=1&EXECUTIONDURATION=90")); got != "2026-01-31T12:01:30.000Z" {
		t.Errorf("got quote %s, want the longest run time", got)
	}
	w = newWorld(t, "uwsQuote: 60\nuwsExecutionDuration: 600\n")
	job := w.create("a=1&PHASE=RUN")
	if got := quote(w, job); got != "2026-01-31T12:01:00.000Z" {
		t.Errorf("got quote %s, want the configured time", got)
	}
	taken := w.take()
	w.sleep(50 * time.Second)
	if got := quote(w, job); got != "2026-01-31T12:01:00.000Z" {
		t.Errorf("got quote %s, want it from the start", got)
	}
	w.sleep(50 * time.Second)
	if got := quote(w, job); got != "2026-01-31T12:01:40.000Z" {
		t.Errorf("got quote %s, want now", got)
	}
	w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Completed})
	if got := quote(w, job); got != "" {
		t.Errorf("got quote %s of a job that has ended", got)
	}
	staged := w.create("a=1")
	if _, err := w.svc.SetQueue(context.Background(), "q", func(i *queuefs.QueueInfo) error { i.Paused = w.clock(); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := quote(w, staged); got != "" {
		t.Errorf("got quote %s of a paused queue", got)
	}
	// A word is an integer of seconds in 1.0, below zero if nobody knows (2.1.6, 2.2.1).
	w = newWorld(t, "uwsQuote: 60\nuwsVersion: 1.0\n")
	job = w.create("a=1")
	if got := w.get(job + "/quote"); got != "60" {
		t.Errorf("got quote %s, want seconds in 1.0", got)
	}
	if got := element(w.get(job), "quote"); got != "2026-01-31T12:01:00.000Z" {
		t.Errorf("got quote %s in the job, want an instant", got)
	}
	w = newWorld(t, "uwsVersion: 1.0\n")
	job = w.create("a=1")
	if got := w.get(job + "/quote"); got != "-1" {
		t.Errorf("got quote %s, want none in 1.0", got)
	}
	if got := w.get(job); !strings.Contains(got, `<uws:quote xsi:nil="true"/>`) {
		t.Errorf("got %s, want a quote that is nil", got)
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
