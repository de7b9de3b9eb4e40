package uws_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

func TestJobFromItsMakingToItsDestruction(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("QUERY=a%3Bb&runId=mine&executionDuration=60&x=%C3%A9")
	if c := idOf(job)[0]; strings.IndexByte("htps:/", c) >= 0 {
		t.Errorf("identifier begins with %c", c)
	}
	w.phase(job, "PENDING")
	if _, err := w.q.Next(context.Background(), "w"); err != queuefs.ErrEmpty {
		t.Errorf("got %v before RUN, want that nobody gets the job", err)
	}
	w.want(303, "POST", job+"/parameters", "QUERY=c")
	w.want(303, "PUT", job+"/parameters/x", "y;=\\")
	w.want(403, "POST", job+"/parameters", "NEW=1")
	if at, _ := w.want(303, "POST", job+"/phase", "phase=run"); at != job {
		t.Errorf("got Location %s, want %s", at, job)
	}
	w.phase(job, "QUEUED")
	w.want(303, "POST", job+"/phase", "PHASE=RUN") // the answer may have been lost
	w.want(403, "POST", job+"/parameters", "QUERY=late")

	taken := w.take()
	if got, want := taken.Sidecar, `QUERY=c; x=y\;\=\\`; got != want {
		t.Errorf("got sidecar %q, want %q", got, want)
	}
	w.phase(job, "EXECUTING")
	w.want(403, "POST", job+"/phase", "PHASE=RUN")
	w.sleep(time.Second)
	w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Completed}, "result", "log")
	w.phase(job, "COMPLETED")
	w.want(303, "POST", job+"/phase", "PHASE=ABORT") // changes nothing
	w.phase(job, "COMPLETED")

	text := w.get(job)
	for name, want := range map[string]string{"runId": "mine", "executionDuration": "60", "creationTime": "2026-01-31T12:00:00.000Z",
		"destruction": "2026-03-02T12:00:00.000Z"} {
		if got := element(text, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"startTime", "endTime"} {
		if got := element(text, name); !strings.HasSuffix(got, "Z") {
			t.Errorf("%s: got %q, want a time that ends in Z", name, got)
		}
	}
	for _, want := range []string{`<uws:parameter id="QUERY">c</uws:parameter>`, `<uws:parameter id="x">y;=\</uws:parameter>`, `size="13" mime-type="text/plain"`} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
	if got := w.get(job + "/results/result"); got != "result result" {
		t.Errorf("got result %q", got)
	}
	valid(t, "1.1", text, w.get("async"), w.get(job+"/results"), w.get(job+"/parameters"))

	at, _ := w.want(303, "DELETE", job, "")
	if got := ids(w.get(at)); len(got) != 0 {
		t.Errorf("got %v in the list, want nothing", got)
	}
	for _, part := range []string{"", "/phase", "/results", "/results/result"} {
		w.want(404, "GET", job+part, "")
	}
	w.want(404, "DELETE", job, "")
	if j, err := w.q.Job(taken.ID); err != nil || len(j.Results) != 0 {
		t.Errorf("got %d results, %v, want the job without results", len(j.Results), err)
	}
}

func TestPhasesFollowTheQueue(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "")
	abort := func(job string) { w.want(303, "POST", job+"/phase", "PHASE=ABORT") }
	ended := func(job string) {
		t.Helper()
		if element(w.get(job), "endTime") == "" {
			t.Errorf("no endTime: %s", w.get(job))
		}
	}
	job := w.create("a=1")
	abort(job)
	w.phase(job, "ABORTED")
	ended(job)
	w.want(403, "POST", job+"/phase", "PHASE=RUN")

	job = w.create("PHASE=RUN&a=1")
	w.phase(job, "QUEUED")
	w.want(303, "POST", job, "PHASE=ABORT") // to the job itself, as some clients do
	w.phase(job, "ABORTED")
	ended(job)

	job, _ = w.want(303, "POST", "async?PHASE=RUN", "a=1")
	taken := w.take()
	abort(job)
	w.phase(job, "ABORTED")
	ended(job)
	if _, err := w.q.Extend(ctx, taken.ID, taken.Token, 0); err == nil {
		t.Error("the worker of an aborted job still has its lease")
	}

	job = w.create("PHASE=RUN&a=1")
	taken = w.take()
	w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Failed, Transient: true})
	w.phase(job, "QUEUED") // for another attempt
	if _, err := w.svc.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error { i.MaxAttempts = 2; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.q.Release(ctx, taken.ID); err != nil {
		t.Fatal(err)
	}
	taken = w.take()
	w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no <disk>\nstack", Transient: true})
	w.phase(job, "ERROR")
	text := w.get(job)
	if want := `<uws:errorSummary type="transient" hasDetail="true"><uws:message>no &lt;disk&gt;</uws:message>`; !strings.Contains(text, want) {
		t.Errorf("got no %s in %s", want, text)
	}
	if got := w.get(job + "/error"); got != "no <disk>\nstack" {
		t.Errorf("got error %q", got)
	}
	valid(t, "1.1", text)
	if _, err := w.q.Requeue(ctx, taken.ID); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "QUEUED")
	if _, err := w.q.Hold(ctx, taken.ID, "no licence"); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "HELD")
	if _, text := w.want(403, "POST", job+"/phase", "PHASE=RUN"); !strings.Contains(text, "no licence") {
		t.Errorf("got %q, want why", text)
	}
	if _, err := w.q.Delete(ctx, taken.ID); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "ABORTED")
	again, err := w.q.RequeueEnd(ctx, taken.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.phase(job, "QUEUED")
	if text := w.get(job); !strings.Contains(text, again.ID.String()) {
		t.Errorf("got %s, want job %v", text, again.ID)
	}
	if got := ids(w.get("async?PHASE=QUEUED")); !reflect.DeepEqual(got, []string{idOf(job)}) {
		t.Errorf("got %v, want %s once", got, idOf(job))
	}
}

func TestJobOfPlainCutieIsInTheList(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "")
	sub := w.q.Begin()
	d, err := sub.Add(queuefs.Meta{MediaType: "text/x-work", Sidecar: "any text"})
	if err != nil {
		t.Fatal(err)
	}
	d.Write([]byte("work"))
	jobs, err := sub.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	job := w.srv.URL + "/uws/q/async/" + jobs[0].ID.String()
	if got := ids(w.get("async")); !reflect.DeepEqual(got, []string{idOf(job)}) {
		t.Fatalf("got %v, want %s", got, idOf(job))
	}
	w.phase(job, "QUEUED")
	if got := w.get(job + "/parameters/payload"); got != "work" {
		t.Errorf("got payload %q", got)
	}
	if _, err := w.q.Next(ctx, "old consumer"); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "COMPLETED")
	if text := w.get(job); !strings.Contains(text, `reported="false"`) || element(text, "endTime") == "" {
		t.Errorf("got %s, want an end that nobody reported", text)
	}
	w.want(303, "POST", job, "ACTION=DELETE")
	w.want(404, "GET", job, "")
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got %v in the list, want nothing", got)
	}
}

func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	for _, c := range []struct {
		status              int
		method, where, body string
	}{
		{404, "GET", "async/none", ""},
		{404, "GET", "async/j000000000009", ""},
		{404, "GET", "async/u" + strings.Repeat("a", 25) + "b", ""},
		{404, "GET", "async/..%2f..", ""},
		{404, "GET", job + "/nonsense", ""},
		{404, "GET", "nonsense", ""},
		{404, "GET", job + "/results/none", ""},
		{404, "GET", job + "/parameters/none", ""},
		{405, "DELETE", "async", ""},
		{405, "DELETE", job + "/phase", ""},
		{405, "POST", job + "/results", "a=1"},
		{400, "POST", job + "/phase", "PHASE=nonsense"},
		{400, "POST", job + "/phase", "DESTRUCTION=2030-01-01"},
		{400, "POST", job, "ACTION=none"},
		{400, "POST", job, ""},
		{403, "POST", "async", "PHASE=nonsense"},
		{403, "POST", "async", "DESTRUCTION=soon"},
		{400, "POST", "async", "a=%00"},
		{413, "POST", "async", "a=" + strings.Repeat("b", 300<<10)},
		{404, "GET", w.srv.URL + "/uws/other/async", ""},
	} {
		if got, _, text := w.do(c.method, c.where, c.body); got != c.status {
			t.Errorf("%s %s %.40s: got %d %s, want %d", c.method, c.where, c.body, got, text, c.status)
		}
	}
	w.phase(job, "PENDING")
	if got := len(ids(w.get("async"))); got != 1 {
		t.Errorf("got %d jobs, want 1", got)
	}
}
