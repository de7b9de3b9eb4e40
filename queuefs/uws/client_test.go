package uws_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// page asks as a browser does, and takes only what is well-formed, has the
// policy of all pages, and brings nothing that would run.
func (w *world) page(status int, where string) string {
	w.t.Helper()
	r, err := http.NewRequest("GET", where, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", browser)
	resp, err := w.web.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != status || resp.Header.Get("Content-Security-Policy") != state.PagePolicy || resp.Header.Get("Vary") != "Accept" {
		w.t.Errorf("%s: got %s, %v", where, resp.Status, resp.Header)
	}
	for d := xml.NewDecoder(strings.NewReader(string(data))); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			w.t.Fatalf("%s: %v\n%s", where, err, data)
		}
		if e, ok := token.(xml.StartElement); ok {
			if slices.Contains([]string{"script", "img", "iframe", "object"}, e.Name.Local) {
				w.t.Errorf("%s: got <%s>", where, e.Name.Local)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" || strings.HasPrefix(a.Value, "javascript:") {
					w.t.Errorf("%s: got %s=%q", where, a.Name.Local, a.Value)
				}
			}
		}
	}
	return string(data)
}

// buttons are the words on the buttons of a page.
func buttons(page string) (all []string) {
	for _, m := range regexp.MustCompile(`>([^<]*)</button>`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestPagesOfferWhatThePhaseAllows(t *testing.T) {
	w := newWorld(t, "")
	hostile := `RUNID=<script>alert(1)</script>&a"b=]]>%26amp;%0A&a"b=2`
	list := w.srv.URL + "/uws/q/async"
	jobID := w.create(hostile)
	check := func(where string, want ...string) {
		t.Helper()
		if got := buttons(w.page(200, where)); !slices.Equal(got, want) {
			t.Errorf("%s: got buttons %q, want %q", where, got, want)
		}
	}
	check(list, "Create", "Create and run", "List")
	check(jobID, "Run", "Set", "Set", "Abort", "Set", "Set", "Destroy")
	w.want(303, "POST", jobID, "PHASE=RUN")
	check(jobID, "Abort", "Set", "Set", "Destroy")
	w.finish(w.take(), job.Conclusion{Outcome: job.Failed, Message: "<b>no</b>"}, "result")
	check(jobID, "Set", "Set", "Destroy")
	check(list+"?PHASE=&AFTER=&LAST=5", "Create", "Create and run", "List")
	if text := w.page(200, jobID); !strings.Contains(text, "&lt;b&gt;no&lt;/b&gt;") || !strings.Contains(text, jobID+"/results/result") {
		t.Errorf("got %s, want the message and the result", text)
	}
	if text := w.page(404, jobID+"x"); !strings.Contains(text, "job not found") {
		t.Errorf("got %s, want a page that says why", text)
	}
	w.page(400, list+"?LAST=none")
}

// A stranger cannot tell by the description of a service whether there is the queue.
func TestStrangersDoNotLearnWhichQueuesThereAre(t *testing.T) {
	w := newWorld(t, "")
	w.security = uws.Security{Users: true}
	ask := func(queue, part string) (int, string) {
		t.Helper()
		r, err := http.Get(w.srv.URL + "/uws/" + queue + "/" + part)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, strings.ReplaceAll(string(text), "/uws/"+queue+"/", "/uws/QUEUE/")
	}
	for _, part := range []string{"capabilities", "availability"} {
		w.as = uws.Caller{Own: true, Stranger: true}
		there, text := ask("q", part)
		absent, other := ask("absent", part)
		if there != 200 || absent != 200 || text != other {
			t.Errorf("%s: got %d %s for a queue and %d %s for none", part, there, text, absent, other)
		}
		if status, _ := ask("cutie-x", part); status != 404 {
			t.Errorf("%s of no possible name: got %d, want 404", part, status)
		}
		w.as = uws.Caller{Own: true}
		if status, _ := ask("absent", part); status != 404 {
			t.Errorf("%s for a caller with a right: got %d, want 404", part, status)
		}
	}
}

// What is known to break clients that others wrote; each did break one.

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

// A list of a long queue comes in parts: each costs no more than so many jobs.
func TestLongListsComeInParts(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	w.maxListed = 4
	w.open(nil)
	var jobs []string
	for i := range 10 {
		w.sleep(time.Second)
		jobs = append([]string{idOf(w.create(fmt.Sprint("n=", i)))}, jobs...)
	}
	for _, query := range []string{"", "?PHASE=PENDING", "?LAST=4", "?AFTER=2000"} {
		where, got, parts := w.srv.URL+"/uws/q/async"+query, []string(nil), 0
		for ; where != ""; parts++ {
			resp, err := http.Get(where)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = append(got, ids(string(text))...)
			where = ""
			if next := wellknown.Links(resp.Header, "next"); len(next) > 0 {
				where = next[0]
			}
		}
		if !reflect.DeepEqual(got, jobs) || parts != 3 {
			t.Errorf("%s: got %v in %d parts, want %v", query, got, parts, jobs)
		}
	}
	w.want(400, "GET", "async?BEFORE=x", "")
}

func TestCharactersThatXMLCannotCarryAreRefusedByName(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1&RUNID=r")
	for char, name := range map[string]string{"\x00": "U+0000", "\x01": "U+0001", "\x0b": "U+000B", "\x1b": "U+001B", "\ufffe": "U+FFFE", "\uffff": "U+FFFF", "\xff": "not UTF-8"} {
		refused := func(why, method, where, body string, header ...string) {
			t.Helper()
			if _, text := w.want(400, method, where, body, header...); !strings.Contains(text, name) {
				t.Errorf("%s: got %q, want %s named", why, text, name)
			}
		}
		value := url.QueryEscape("x" + char)
		for _, field := range []string{"a=" + value, value + "=1", "RUNID=" + value, "a=1&runid=" + value + "&PHASE=RUN"} {
			refused("form", "POST", "async", field)
			refused("query", "POST", "async?"+field, "")
			refused("query of sync", "GET", "sync?"+field, "")
			refused("form of sync", "POST", "sync", field)
			refused("change", "POST", job, field)
			refused("query of a change", "POST", job+"?"+field, "")
		}
		for _, name := range []string{"a", "RUNID"} {
			body, mediaType := parts(t, nil, name, "x"+char)
			refused("multipart", "POST", "async", body, "Content-Type", mediaType)
			refused("multipart of a change", "POST", job, body, "Content-Type", mediaType)
		}
		refused("lines of a page", "POST", "async?uws-lines=l", "l="+url.QueryEscape("a=x"+char))
		refused("parameters", "POST", job+"/parameters", "a="+value)
		refused("parameter", "PUT", job+"/parameters/a", "x"+char)
		refused("name of a parameter", "PUT", job+"/parameters/"+url.PathEscape("x"+char), "1")
	}
	if got := ids(w.get("async")); len(got) != 1 {
		t.Errorf("got %v, want the first job", got)
	}
	text := w.get(job)
	if !strings.Contains(text, `<uws:parameter id="a">1</uws:parameter>`) || element(text, "runId") != "r" {
		t.Errorf("got %s, want what it was made with", text)
	}
}

func TestTextWithBreaksAndAnyScriptIsKept(t *testing.T) {
	w := newWorld(t, "")
	want := "a\tb\nc\rd \u0085 é 漢 \U0001F30D"
	job := w.create("a=" + url.QueryEscape(want))
	if got := w.get(job + "/parameters/a"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	valid(t, "1.1", w.get(job))
}

func TestWaitEndsWhenThePhaseChanges(t *testing.T) {
	w := newWorld(t, "")
	jobID := w.create("a=1")
	var taken queuefs.Taken
	for _, step := range []struct {
		from, to string
		do       func()
	}{
		{"PENDING", "QUEUED", func() { w.want(303, "POST", jobID+"/phase", "PHASE=RUN") }},
		{"QUEUED", "EXECUTING", func() { taken = w.take() }},
		{"EXECUTING", "COMPLETED", func() { w.finish(taken, job.Conclusion{Outcome: job.Completed}, "result") }},
	} {
		got := make(chan string)
		go func() {
			_, _, text := w.do("GET", jobID+"?WAIT=-1&PHASE="+step.from, "")
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
	w.get(jobID + "?WAIT=50")
	w.get(jobID + "?WAIT=50&PHASE=EXECUTING")
}

// What is no phase wakes nobody, but is in the answer to a wait that is over.
func TestWaitThatIsOverTellsWhatWasChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the wait is over when all is done
		w := newWorld(t, "")
		w.srv.Close() // time would stand still before a network
		ask := func(method, where, form string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, strings.TrimPrefix(where, w.srv.URL), strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			a := httptest.NewRecorder()
			web.NewRouter(web.Plain, w.h.Routes()...).ServeHTTP(a, r)
			return a
		}
		for _, form := range []string{"a=1", "a=1&PHASE=RUN"} {
			job := ask("POST", "/uws/q/async", form).Header().Get("Location")
			got := make(chan string)
			go func() { got <- ask("GET", job+"?WAIT=50", "").Body.String() }()
			synctest.Wait()
			const then = "2026-01-31T16:00:00.000Z"
			ask("POST", job, "DESTRUCTION="+then)
			if text := <-got; element(text, "destruction") != then {
				t.Errorf("%s: got %s, want the destruction %s", form, text, then)
			}
		}
	})
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
	w.finish(w.take(), job.Conclusion{Outcome: job.Completed}, "other", "result")
	if at, want := <-got, w.srv.URL+"/uws/q/async/"+idOf(wait)+"/results/result"; at != want {
		t.Errorf("got %s, want %s", at, want)
	}
}

func TestWaitNeitherEndsAtOnceNorTooLate(t *testing.T) {
	w := newWorld(t, "")
	if got := time.Duration(uws.MaxWait); got < 10*time.Second || got > time.Minute {
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

// The secret part of the identifier protects a job whose other elements are damaged.
func TestDamagedRecordIsNotFoundByItsNumberAlone(t *testing.T) {
	w := newWorld(t, "")
	id, wrong := idOf(w.create("a=1")), idOf(w.create("a=1"))
	w.damage(1, func(text string) string { return text + "uws-duration: soon\n" })
	w.phase("async/"+id, "UNKNOWN")
	w.want(404, "GET", "async/"+id[:9]+wrong[9:], "")
}

func TestCheckFindsElementsWithoutSense(t *testing.T) {
	w := newWorld(t, "")
	w.create("a=1")
	w.create("a=1")
	w.damage(1, func(text string) string { return text + "uws-duration: soon\n" })
	w.close()
	inspect := func(repair bool) (found []string) {
		r, err := check.Home(w.dir, check.Options{Repair: repair, Now: w.clock, Segment: 1 << 20, Job: uws.Check})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Problems {
			found = append(found, p.String())
		}
		return found
	}
	const want = "queues/q/pending/j000000000001: uws-duration: \"soon\": no number of seconds"
	for _, repair := range []bool{true, false} { // repair takes the edited file as it is
		if got := inspect(repair); len(got) != 1 || got[0] != want {
			t.Errorf("repair %v: got %q, want %s", repair, got, want)
		}
	}
	w.open(nil)
}

// spared reports whether culling leaves a job alone.
func (w *world) spared(id job.ID) bool {
	for c, err := range w.svc.Cull(w.t.Context(), queuefs.CullOptions{Queue: "q", Keep: &queuefs.Thresholds{}, Dry: true}) {
		if err != nil {
			w.t.Error(err)
		}
		if c.Job == id {
			return false
		}
	}
	return true
}

// Of a job whose file cannot be read just now nothing is known.
func TestJobThatCannotBeReadIsSpared(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	w.create("a=1&PHASE=RUN")
	w.finish(w.take(), job.Conclusion{Outcome: job.Completed})
	if err := w.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	spared := w.spared(1)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !spared {
		t.Error("it is not spared")
	}
	w.sleep(3 * time.Hour)
	if w.spared(1) {
		t.Error("it is spared for ever")
	}
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

// Fields without a file count as parts do, and so does a file that was not chosen.
func TestPartsOfAFormAreCounted(t *testing.T) {
	w := newWorld(t, "")
	chosen := strings.Repeat("--b\r\nContent-Disposition: form-data; name=f; filename=\"\"\r\n\r\n\r\n", 2000)
	code, _, text := w.do("POST", w.srv.URL+"/uws/q/async", chosen+"--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("2000 parts: got %d, %s, want 413", code, text)
	}
	code, _, text = w.do("POST", w.srv.URL+"/uws/q/async", "--b\r\nContent-Disposition: form-data; name=a\r\nX: "+strings.Repeat("x", 100_000),
		"Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("a long header: got %d, %s, want 413", code, text)
	}
}
