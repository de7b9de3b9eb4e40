package uws_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
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
	job := w.create(hostile)
	check := func(where string, want ...string) {
		t.Helper()
		if got := buttons(w.page(200, where)); !slices.Equal(got, want) {
			t.Errorf("%s: got buttons %q, want %q", where, got, want)
		}
	}
	check(list, "Create", "Create and run", "List")
	check(job, "Run", "Set", "Set", "Abort", "Set", "Set", "Destroy")
	w.want(303, "POST", job, "PHASE=RUN")
	check(job, "Abort", "Set", "Set", "Destroy")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed, Message: "<b>no</b>"}, "result")
	check(job, "Set", "Set", "Destroy")
	check(list+"?PHASE=&AFTER=&LAST=5", "Create", "Create and run", "List")
	if text := w.page(200, job); !strings.Contains(text, "&lt;b&gt;no&lt;/b&gt;") || !strings.Contains(text, job+"/results/result") {
		t.Errorf("got %s, want the message and the result", text)
	}
	if text := w.page(404, job+"x"); !strings.Contains(text, "job not found") {
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
