package uws_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

func TestJobFromItsMakingToItsDestruction(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("QUERY=a%3Bb&runId=mine&executionDuration=60&x=%C3%A9")
	if c := idOf(job)[0]; strings.IndexByte("htps:/", c) >= 0 {
		t.Errorf("identifier begins with %c", c)
	}
	w.phase(job, "PENDING")
	if got := w.q.State().Pending; got != 0 {
		t.Errorf("got %d pending jobs in the queue before RUN, want 0", got)
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

func TestUploadIsThePayload(t *testing.T) {
	w := newWorld(t, "")
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	m.SetBoundary("<<<---a-b--->>>"[3:12])
	m.WriteField("UPLOAD", "t,param:t")
	p, _ := m.CreateFormFile("t", "dir/table.bin")
	data := bytes.Repeat([]byte{0, 1, 0xff}, 100_000)
	p.Write(data)
	m.Close()
	job := w.create(b.String(), "Content-Type", m.FormDataContentType())
	check := func() {
		t.Helper()
		if got := w.get(job + "/parameters/t"); got != string(data) {
			t.Errorf("got %d octets of the upload, want %d", len(got), len(data))
		}
		if text, want := w.get(job), `<uws:parameter id="t" byReference="true">`+job+`/parameters/t</uws:parameter>`; !strings.Contains(text, want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
	check()
	w.close()
	w.open(nil)
	job = w.srv.URL + "/uws/q/async/" + idOf(job)
	check()
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	check()
	taken := w.take()
	if taken.Filename != "table.bin" || taken.Size != int64(len(data)) || taken.Sidecar != "UPLOAD=t,param:t" {
		t.Errorf("got %s, %d octets, %q", taken.Filename, taken.Size, taken.Sidecar)
	}
}

func TestListsAreFilteredAndSorted(t *testing.T) {
	w := newWorld(t, "")
	var jobs []string
	for i := range 6 {
		w.sleep(time.Second)
		jobs = append(jobs, idOf(w.create(fmt.Sprint("n=", i))))
	}
	run := func(i int) { w.want(303, "POST", "async/"+jobs[i]+"/phase", "PHASE=RUN") }
	run(5) // the order of RUN is another one
	run(0)
	run(3)
	for query, want := range map[string][]string{
		"LAST=3":                                {jobs[5], jobs[4], jobs[3]},
		"last=2&PHASE=QUEUED":                   {jobs[5], jobs[3]},
		"LAST=9&PHASE=PENDING":                  {jobs[4], jobs[2], jobs[1]},
		"LAST=9&AFTER=2026-01-31T12:00:04":      {jobs[5], jobs[4]},
		"LAST=9&AFTER=2026-01-31T12:00:05.000Z": {jobs[5]},
		"AFTER=2027":                            nil,
		"PHASE=ARCHIVED":                        nil,
		"LAST=9&PHASE=PENDING&phase=queued":     {jobs[5], jobs[4], jobs[3], jobs[2], jobs[1], jobs[0]},
	} {
		if got := ids(w.get("async?" + query)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	if got := len(ids(w.get("async"))); got != 6 {
		t.Errorf("got %d jobs, want 6", got)
	}
	for _, query := range []string{"LAST=-1", "LAST=0", "LAST=x", "PHASE=nonsense", "AFTER=2015-26-10", "AFTER=x"} {
		w.want(400, "GET", "async?"+query, "")
	}
	w.want(400, "GET", "async/"+jobs[0]+"?WAIT=x", "")
	w.want(400, "GET", "async/"+jobs[0]+"?WAIT=-2", "")
}

func TestWaitEndsWhenThePhaseChanges(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	var taken queuefs.Taken
	for _, step := range []struct {
		from, to string
		do       func()
	}{
		{"PENDING", "QUEUED", func() { w.want(303, "POST", job+"/phase", "PHASE=RUN") }},
		{"QUEUED", "EXECUTING", func() { taken = w.take() }},
		{"EXECUTING", "COMPLETED", func() { w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Completed}, "result") }},
	} {
		got := make(chan string)
		go func() {
			_, _, text := w.do("GET", job+"?WAIT=-1&PHASE="+step.from, "")
			got <- element(text, "phase")
		}()
		for w.h.Waiting() == 0 {
			runtime.Gosched()
		}
		step.do()
		if p := <-got; p != step.to {
			t.Errorf("after %s: got %s, want %s", step.from, p, step.to)
		}
	}
	// These do not wait: the phase is another one, or will not change.
	w.get(job + "?WAIT=50")
	w.get(job + "?WAIT=50&PHASE=EXECUTING")
}

func TestLimitsHoldOverRestarts(t *testing.T) {
	w := newWorld(t, "uwsExecutionDuration: 100\nuwsMaxExecutionDuration: 200\nuwsDestruction: 2\nuwsMaxDestruction: 3\n")
	job := "async/" + idOf(w.create("PHASE=RUN&a=1"))
	slow := "async/" + idOf(w.create("PHASE=RUN&a=1&EXECUTIONDURATION=0&DESTRUCTION=2030-01-01"))
	staged := "async/" + idOf(w.create("a=1&DESTRUCTION=2020-01-01"))
	for where, want := range map[string]string{
		job + "/executionduration": "100", slow + "/executionduration": "200",
		job + "/destruction": "2026-01-31T14:00:00.000Z", slow + "/destruction": "2026-01-31T15:00:00.000Z", staged + "/destruction": "2026-01-31T12:01:00.000Z",
	} {
		if got := w.get(where); got != want {
			t.Errorf("%s: got %s, want %s", where, got, want)
		}
	}
	w.want(400, "POST", job+"/executionduration", "EXECUTIONDURATION=soon")
	w.want(400, "POST", job+"/destruction", "DESTRUCTION=soon")
	first := w.take()
	w.take()
	w.sleep(99 * time.Second)
	w.tick()
	w.phase(job, "EXECUTING")
	w.want(404, "GET", staged, "")
	w.close()
	w.sleep(2 * time.Second)
	w.open(nil)
	w.tick()
	w.phase(job, "ABORTED")
	w.phase(slow, "EXECUTING")
	if got := w.get(job + "/error"); got != "execution duration exceeded" {
		t.Errorf("got error %q", got)
	}
	if _, err := w.q.Conclude(context.Background(), first.ID, first.Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err == nil {
		t.Error("a late report was taken")
	}
	w.want(303, "POST", slow+"/executionduration", "EXECUTIONDURATION=102")
	w.sleep(2 * time.Second)
	w.tick()
	w.phase(slow, "ABORTED")

	w.sleep(2 * time.Hour)
	w.close()
	w.open(nil)
	w.tick()
	w.want(404, "GET", job, "")
	w.phase(slow, "ABORTED")
	w.sleep(time.Hour)
	w.tick()
	w.want(404, "GET", slow, "")
}

func TestJobIsArchivedWhereTheQueueSaysSo(t *testing.T) {
	w := newWorld(t, "uwsArchive: true\nuwsDestruction: 1\n")
	job := w.create("PHASE=RUN&a=1")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	w.sleep(time.Hour)
	w.tick()
	w.phase(job, "ARCHIVED")
	w.want(404, "GET", job+"/results/result", "")
	if all, old := ids(w.get("async")), ids(w.get("async?PHASE=ARCHIVED")); len(all) != 0 || len(old) != 1 {
		t.Errorf("got %v and %v, want the job only among the archived", all, old)
	}
	valid(t, "1.1", w.get(job), w.get("async?PHASE=ARCHIVED"))
}

func TestOwnersHaveTheirJobs(t *testing.T) {
	w := newWorld(t, "")
	w.as = uws.Caller{Name: "ann"}
	anns := w.create("PHASE=RUN&a=1")
	staged := w.create("a=1")
	if got := w.get(anns + "/owner"); got != "ann" {
		t.Errorf("got owner %q", got)
	}
	for _, as := range []uws.Caller{{Name: "bob"}, {}, {Delete: true}} {
		w.as = as
		for _, job := range []string{anns, staged} {
			w.want(403, "GET", job, "")
			w.want(403, "DELETE", job, "")
			w.want(403, "POST", job+"/phase", "PHASE=ABORT")
			w.want(403, "PUT", job+"/parameters/a", "2")
		}
		if got := ids(w.get("async")); len(got) != 0 {
			t.Errorf("%+v: got %v in the list, want nothing", as, got)
		}
	}
	w.as = uws.Caller{}
	nobodys := w.create("a=1")
	w.phase(nobodys, "PENDING") // whoever was told of it may have it
	w.as = uws.Caller{Name: "ann"}
	if got := len(ids(w.get("async"))); got != 2 {
		t.Errorf("got %d jobs of ann, want 2", got)
	}
	w.as = uws.Caller{Admin: true}
	if got := len(ids(w.get("async"))); got != 3 {
		t.Errorf("got %d jobs, want 3", got)
	}
	w.want(303, "DELETE", anns, "")
}

func TestSynchronousFaceLeadsToTheResult(t *testing.T) {
	w := newWorld(t, "")
	wait, _ := w.want(303, "POST", "sync", "a=1")
	got := make(chan string)
	go func() {
		_, at, _ := w.do("GET", wait, "")
		got <- at
	}()
	for w.h.Waiting() == 0 {
		runtime.Gosched()
	}
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "other", "result")
	if at, want := <-got, w.srv.URL+"/uws/q/async/"+idOf(wait)+"/results/result"; at != want {
		t.Errorf("got %s, want %s", at, want)
	}
	wait, _ = w.want(303, "GET", "sync?a=1", "")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no"})
	if _, text := w.want(422, "GET", wait, ""); !strings.Contains(text, "no") {
		t.Errorf("got %q, want why", text)
	}
}

func TestVersion10HasNothingOf11(t *testing.T) {
	w := newWorld(t, "uwsVersion: 1.0\n")
	job := w.create("RUNID=r&a=1")
	w.want(303, "POST", job+"/parameters", "NEW=1")
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	texts := []string{w.get(job), w.get("async"), w.get(job + "/results"), w.get(job + "/parameters")}
	for _, text := range texts {
		for _, word := range []string{"creationTime", "mime-type", "size=", `version="1.1"`} {
			if strings.Contains(text, word) {
				t.Errorf("got %s in %s", word, text)
			}
		}
	}
	valid(t, "1.0", texts...)
}

func TestOpaqueJobIsOneParameter(t *testing.T) {
	w := newWorld(t, "uwsJdl: payload\n")
	job := w.create("<work/>", "Content-Type", "text/xml")
	if got := w.get(job + "/parameters/payload"); got != "<work/>" {
		t.Errorf("got %q", got)
	}
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	if got := w.get(job + "/parameters/payload"); got != "<work/>" {
		t.Errorf("got %q", got)
	}
	form := w.create("a=1&b=2&PHASE=RUN")
	if got := w.get(form + "/parameters/payload"); got != "a=1&b=2" {
		t.Errorf("got %q", got)
	}
	valid(t, "1.1", w.get(job), w.get(form))
}

func TestClientsGetXMLWhateverTheyAccept(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=<b>")
	for accept, html := range map[string]bool{
		"": false, "text/plain": false, "application/json": false, "text/html, image/gif, image/jpeg, */*; q=0.2": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
	} {
		for _, where := range []string{job, "async"} {
			_, text := w.want(200, "GET", where, "", "Accept", accept)
			if got := strings.HasPrefix(text, "<!DOCTYPE html>"); got != html {
				t.Errorf("%s: got HTML %v, want %v", accept, got, html)
			}
		}
	}
	if text := w.get(job + "?format=html"); !strings.Contains(text, `value="&lt;b&gt;"`) || !strings.Contains(text, `name="PHASE" value="RUN"`) {
		t.Errorf("got page %s", text)
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
		{403, "POST", "async", "a=%00"},
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

func TestServiceDescribesItself(t *testing.T) {
	w := newWorld(t, "")
	if text, want := w.get("capabilities"), w.srv.URL+"/uws/q/async</accessURL>"; !strings.Contains(text, want) || !strings.Contains(text, "ivo://ivoa.net/std/UWS#rest-1.1") {
		t.Errorf("got %s", text)
	}
	if text := w.get("availability"); !strings.Contains(text, "<vosi:available>true<") {
		t.Errorf("got %s", text)
	}
	if _, err := w.svc.SetQueue(context.Background(), "q", func(i *queuefs.QueueInfo) error { i.Closed = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if text := w.get("availability"); !strings.Contains(text, "<vosi:available>false<") {
		t.Errorf("got %s", text)
	}
	w.want(403, "POST", "async", "a=1")
}
