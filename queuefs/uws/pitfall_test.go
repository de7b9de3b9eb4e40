package uws_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

// What is known to break clients that others wrote; each did break one.

func TestClientFindsItsJobByAnAbsoluteLocation(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1") // 303
	answers := []string{job}
	for _, post := range [][2]string{{"/phase", "PHASE=RUN"}, {"/destruction", "DESTRUCTION=2030-01-01"}, {"/executionduration", "EXECUTIONDURATION=1"}, {"/phase", "PHASE=ABORT"}} {
		at, _ := w.want(303, "POST", job+post[0], post[1])
		answers = append(answers, at)
	}
	at, _ := w.want(303, "DELETE", job, "")
	list, err := url.Parse(at)
	if err != nil || list.Path != "/uws/q/async" {
		t.Errorf("got %s, want the list", at)
	}
	for _, at := range append(answers, at) {
		if !strings.HasPrefix(at, w.srv.URL+"/uws/q/async") {
			t.Errorf("got Location %s, want it absolute", at)
		}
	}
}

func TestJobIdentifiersAreNoPartOfASchemeAndUnlikeEachOther(t *testing.T) {
	w := newWorld(t, "")
	seen := map[string]bool{}
	for range 50 {
		id := idOf(w.create("a=1"))
		if strings.ContainsRune("htps:/", rune(id[0])) || url.PathEscape(id) != id || seen[id] {
			t.Errorf("got identifier %s", id)
		}
		seen[id] = true
	}
}

func TestTimesThatAreNotKnownAreNil(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 0\n")
	text := w.get(w.create("a=1"))
	for _, name := range []string{"ownerId", "quote", "startTime", "endTime", "destruction"} {
		if !strings.Contains(text, "<uws:"+name+` xsi:nil="true"/>`) {
			t.Errorf("%s is not nil in %s", name, text)
		}
	}
	if strings.Contains(text, "runId") {
		t.Errorf("got a runId in %s", text)
	}
	valid(t, "1.1", text)
}

func TestTimesAreUTC(t *testing.T) {
	w := newWorld(t, "limits: life=0\n")
	job := w.create("PHASE=RUN&a=1&DESTRUCTION=2030-01-01T12:00:00%2B01:00")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	text := w.get(job) + w.get("async") + w.get(job+"/destruction")
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT[^<]*`).FindAllString(text, -1)
	if len(times) != 6 {
		t.Errorf("got %q, want six times", times)
	}
	for _, s := range times {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(s) {
			t.Errorf("got %s, want milliseconds and Z", s)
		}
	}
	if got := w.get(job + "/destruction"); got != "2030-01-01T11:00:00.000Z" {
		t.Errorf("got destruction %s", got)
	}
}

// HELD and SUSPENDED are failures to clients. A queue that hands out nothing
// and a consumer that is lost lead to neither.
func TestRunAlwaysQueues(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "acknowledge: required\n")
	if _, err := w.svc.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error { i.Paused = w.clock(); return nil }); err != nil {
		t.Fatal(err)
	}
	job := w.create("PHASE=RUN&a=1")
	w.phase(job, "QUEUED")
	if _, err := w.svc.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error { i.Paused = time.Time{}; return nil }); err != nil {
		t.Fatal(err)
	}
	w.take()
	w.phase(job, "EXECUTING")
	w.sleep(2 * time.Hour)
	if err := w.svc.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	w.phase(job, "QUEUED")
}

func TestWaitNeitherEndsAtOnceNorTooLate(t *testing.T) {
	w := newWorld(t, "")
	if got := w.h.MaxWait(); got < 10*time.Second || got > time.Minute {
		t.Errorf("a wait takes up to %v, and clients read for a minute", got)
	}
	job := w.create("a=1")
	for _, query := range []string{"WAIT=-1", "wait=30", "WAIT=1000000", "WAIT=9223372036854775807", "WAIT=50&PHASE=pending"} {
		ctx, leave := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "GET", job+"?"+query, nil)
		answered := make(chan bool)
		go func() {
			resp, err := w.web.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			answered <- err == nil
		}()
		for w.h.Waiting() == 0 {
			select {
			case <-answered:
				t.Fatalf("%s: answered at once", query)
			default:
				runtime.Gosched()
			}
		}
		leave()
		if <-answered {
			t.Errorf("%s: answered, and nothing has changed", query)
		}
		for w.h.Waiting() > 0 {
			runtime.Gosched()
		}
	}
}

func TestAbortIsTakenAtTheJobItself(t *testing.T) {
	w := newWorld(t, "")
	for _, form := range []string{"PHASE=ABORT", "phase=abort"} {
		job := w.create("PHASE=RUN&a=1")
		w.want(303, "POST", job, form)
		w.phase(job, "ABORTED")
	}
}

func TestAfterComparesWhatIsShown(t *testing.T) {
	w := newWorld(t, "")
	w.sleep(1234567 * time.Nanosecond)
	first := w.create("a=1&PHASE=RUN")
	w.sleep(3 * time.Millisecond)
	second := w.create("a=1")
	created := element(w.get(first), "creationTime")
	if created != "2026-01-31T12:00:00.001Z" {
		t.Errorf("got created %s", created)
	}
	if got := ids(w.get("async?AFTER=" + created)); !reflect.DeepEqual(got, []string{idOf(second)}) {
		t.Errorf("got %v, want what came later only", got)
	}
}

func TestRunIdIsNoParameter(t *testing.T) {
	w := newWorld(t, "")
	label := "  a\nrun; = \\ é "
	job := w.create("RUNID=first&runId=" + url.QueryEscape(label) + "&a=1")
	for range 2 {
		text := w.get(job)
		if got, want := element(text, "runId"), "  a&#xA;run; = \\ é "; got != want {
			t.Errorf("got runId %q, want %q", got, want)
		}
		if n := strings.Count(text, "<uws:parameter "); n != 1 {
			t.Errorf("got %d parameters in %s, want 1", n, text)
		}
		w.close()
		w.open(nil)
		job = w.srv.URL + "/uws/q/async/" + idOf(job)
	}
	w.want(303, "POST", job+"/parameters", "runId=other")
	if got := element(w.get(job), "runId"); got != "other" {
		t.Errorf("got runId %q", got)
	}
	w.want(303, "POST", job, "PHASE=RUN&RUNID="+url.QueryEscape(label))
	if got := element(w.get(job), "runId"); got != "  a&#xA;run; = \\ é " {
		t.Errorf("got runId %q of the started job", got)
	}
	w.want(403, "POST", job, "RUNID=late")
}

func TestListAfterDeletionIsShort(t *testing.T) {
	for settings, want := range map[string]string{"": "LAST=100", "uwsVersion: 1.0\n": ""} {
		w := newWorld(t, settings)
		at, _ := w.want(303, "DELETE", w.create("a=1"), "")
		if _, query, _ := strings.Cut(at, "?"); query != want {
			t.Errorf("%s: got %s, want ?%s", settings, at, want)
		}
	}
}

// Clients ask for results/result without looking at the list.
func TestMainResultHasTheNameThatClientsAskFor(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("PHASE=RUN&a=1")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result", "a.log")
	if got := w.get(job + "/results/result"); got != "result result" {
		t.Errorf("got %q", got)
	}
	if at, _ := w.want(303, "GET", "sync/"+idOf(job), ""); at != job+"/results/result" {
		t.Errorf("got %s, want the main result", at)
	}
}

// There are clients that take any element "job" for one of UWS.
func TestNoElementIsNamedAsOneOfUWSIs(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("PHASE=RUN&a=1")
	_, info, _ := strings.Cut(w.get(job), "<uws:jobInfo>")
	for _, m := range regexp.MustCompile(`<(\w+)`).FindAllStringSubmatch(info, -1) {
		for _, taken := range []string{"job", "jobs", "jobref", "phase", "parameter", "result", "results", "parameters", "message", "quote"} {
			if m[1] == taken {
				t.Errorf("got %s in jobInfo", m[0])
			}
		}
	}
	if !strings.HasPrefix(info, "<entry ") || strings.Contains(info, "xmlns") {
		t.Errorf("got jobInfo %s, want an entry without a namespace", info)
	}
}

func TestNobodyMakesAJobByLookingAtIt(t *testing.T) {
	w := newWorld(t, "")
	w.want(405, "HEAD", "sync?a=1", "")
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestWhoMayNotSeeAJobGets403AndNotItsLack(t *testing.T) {
	w := newWorld(t, "")
	w.as = uws.Caller{Name: "ann"}
	job := w.create("a=1")
	w.as = uws.Caller{}
	for _, part := range []string{"", "/phase", "/results", "/parameters/a", "/owner", "?WAIT=-1"} {
		w.want(403, "GET", job+part, "")
	}
	w.want(404, "GET", "async/u"+strings.Repeat("a", 26), "")
}

func TestBodyThatIsNoFormIsRefused(t *testing.T) {
	w := newWorld(t, "")
	r, _ := http.NewRequest("POST", w.srv.URL+"/uws/q/async", strings.NewReader(`{"a":1}`))
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if io.Copy(io.Discard, resp.Body); resp.StatusCode != 415 {
		t.Errorf("got %s, want 415", resp.Status)
	}
}
